# podium's image: python and one virtual environment. Runs as nobody, on a read-only root file system, without a shell.
# Any base with Python 3.11 or later at the same path in both stages will do. Every dependency is pinned with its hash.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# First what changes rarely. The environment has no pip of its own; bytecode is compiled here, since nothing can be
# written later.
COPY deploy/image/requirements.txt deploy/image/build-requirements.txt deploy/image/
RUN python -m venv --without-pip /opt/podium \
 && python -m pip --python /opt/podium/bin/python install --no-cache-dir --compile --require-hashes \
      --only-binary=:all: -r deploy/image/requirements.txt \
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
 && python -m pip --python /opt/podium/bin/python install --no-cache-dir --compile --no-deps /wheels/podium-*.whl \
 && find /opt/podium -type d -name tests -prune -exec rm -rf {} +

FROM ${BASE}
COPY --from=build /opt/podium /opt/podium
# One BLAS thread: the columns are short, and threads only wait for each other.
ENV PATH=/opt/podium/bin:$PATH \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/opt/podium/bin/podium"]
CMD ["run"]
