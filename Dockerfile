# The image of mc-sidecar: a static program and the public CA certificates. It packs files that `make image` has built in
# target/image/context, so it needs no emulation and no base image.
FROM scratch
ARG TARGETARCH
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY ${TARGETARCH}/mc-sidecar /mc-sidecar
LABEL org.opencontainers.image.title="mc-sidecar" \
      org.opencontainers.image.source="https://github.com/kubectl-mc/kubectl-mc" \
      org.opencontainers.image.licenses="Apache-2.0"
# A numeric user, because Kubernetes checks runAsNonRoot by the number.
USER 65532:65532
EXPOSE 10250
ENTRYPOINT ["/mc-sidecar"]
