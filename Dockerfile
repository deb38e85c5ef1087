# One quorumd node, broker and controller. Build, found a cluster of one node, once per volume, and run:
#     docker build -t quorumd .
#     docker run --rm -v quorumd:/var/lib/quorumd quorumd format --config /etc/quorumd/quorumd.properties --standalone
#     docker run --name quorumd -p 9092:9092 -p 9292:9292 -v quorumd:/var/lib/quorumd quorumd
# A configuration of your own: -v /path/to/file:/etc/quorumd/quorumd.properties:ro

# Python 3.11.15 on Debian trixie, August 2026: the digest of all platforms in docker-library/repo-info,
# repos/python/remote/3.11-slim.md. Take a newer one for security updates.
ARG BASE=python:3.11-slim@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff

FROM ${BASE} AS build
# This stage has the compiler for the hot packages.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY scripts/build_backend.py scripts/
COPY quorumd quorumd
RUN python -m venv /opt/quorumd && /opt/quorumd/bin/pip install --no-cache-dir ".[regex,security]"

FROM ${BASE}
RUN useradd --system --home-dir /var/lib/quorumd --shell /usr/sbin/nologin --uid 9092 quorumd \
    && install -d -o quorumd -g quorumd -m 0700 /var/lib/quorumd
COPY --from=build /opt/quorumd /opt/quorumd
COPY config/container.properties /etc/quorumd/quorumd.properties
ENV PATH=/opt/quorumd/bin:$PATH PYTHONUNBUFFERED=1
USER quorumd
WORKDIR /var/lib/quorumd
VOLUME /var/lib/quorumd
EXPOSE 9092 9192 9292
STOPSIGNAL SIGTERM
# The port is that of metrics.listener, in the properties or in QUORUMD_METRICS_LISTENER.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-m", "quorumd.runtime.health_probe", "/etc/quorumd/quorumd.properties"]
# A node with a blank volume joins the quorum of its properties, or founds one with all of quorum.voters.
# The command line is the image's entry point, so that `docker run quorumd quorum describe ...` works too.
ENTRYPOINT ["quorumd"]
CMD ["start", "--config", "/etc/quorumd/quorumd.properties", "--format-if-needed"]
