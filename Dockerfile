# The image of mc-sidecar: one static program, the roots of the public authorities, and nothing else. It only packs what
# was built before (target/image/context), so no platform is emulated and no other image is needed: `make image` does both.
FROM scratch
ARG TARGETARCH
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY ${TARGETARCH}/mc-sidecar /mc-sidecar
LABEL org.opencontainers.image.title="mc-sidecar" \
      org.opencontainers.image.source="https://github.com/kubectl-mc/kubectl-mc" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nobody, by number: Kubernetes checks runAsNonRoot by it.
USER 65532:65532
EXPOSE 10250
ENTRYPOINT ["/mc-sidecar"]
