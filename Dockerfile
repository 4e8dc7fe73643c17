# The image of mc-sidecar: one static program, the roots of the public authorities, and nothing else.
# `make image` builds it for this machine, `make image PLATFORMS=linux/amd64,linux/arm64` for both.
FROM rust:1.95-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends cmake
RUN cargo install --locked cargo-auditable@0.7.7
WORKDIR /src
COPY . .
# The list of all that went in is in the program itself (cargo auditable), for scanners of images. Names are looked up by
# the C library inside: files and DNS, which need no module beside it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    make program AUDITABLE=auditable \
    && install -D "target/$(uname -m)-unknown-linux-gnu/release/mc-sidecar" /out/mc-sidecar

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/mc-sidecar /mc-sidecar
# Nobody, by number: Kubernetes checks runAsNonRoot by it.
USER 65532:65532
EXPOSE 10250
ENTRYPOINT ["/mc-sidecar"]
