# podium's image: an interpreter, one environment, the libraries that both link, and nothing else. Runs as nobody, on a
# read-only root file system; there is no shell in it. Every dependency is pinned with its hash.
# Any base with Python 3.11 or later will do: only what deploy/image/assemble.py copies from it gets into the image.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
# A CA file, where the package index is reached through a proxy. Not in the image.
ARG PIP_CERT
WORKDIR /src
# First what changes rarely: a new version of podium is one small layer on top of the same large one.
COPY deploy/image/requirements.txt deploy/image/build-requirements.txt deploy/image/assemble.py deploy/image/
RUN python -m venv --without-pip /opt/podium \
 && python -m pip --python /opt/podium/bin/python install --no-cache-dir --no-compile --require-hashes \
      --only-binary=:all: -r deploy/image/requirements.txt \
 && python deploy/image/assemble.py /opt/podium /image \
 && python -m venv --without-pip /opt/build \
 && python -m pip --python /opt/build/bin/python install --no-cache-dir --require-hashes \
      --only-binary=:all: -r deploy/image/build-requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY kube kube
COPY plugins plugins
COPY podium podium
COPY scheduler scheduler
COPY simulator simulator
RUN /opt/build/bin/python -m build --wheel --no-isolation --outdir /wheels . \
 && python -m pip --python /opt/podium/bin/python install --no-cache-dir --compile --no-deps --root /own \
      /wheels/podium-*.whl

FROM scratch
COPY --from=build /image/ /
COPY --from=build /own/ /
# One BLAS thread: the columns are short, and threads only wait for each other. /dev/shm is the one place that can be
# written; certificates inside a kubeconfig are put there.
ENV PATH=/opt/podium/bin \
    LANG=C.UTF-8 \
    TMPDIR=/dev/shm \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/opt/podium/bin/podium"]
CMD ["run"]
