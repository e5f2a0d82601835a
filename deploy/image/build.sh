#!/usr/bin/env bash
# Builds podium's image without a container engine, with Debian's buildah in a chroot: deploy/image/build.sh [BASE]
# Without BASE (an image with Python 3.11 or later and pip) one is made of Debian's packages by mmdebstrap. Run as root.
# STORE: where images are kept (default: buildah's own). TRUST: a CA file that the package index needs; not in the image.
set -euo pipefail
cd "$(dirname "$0")/../.."

base="${1:-}"
tag="podium:$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)"
buildah=(buildah --storage-driver vfs)
if [[ -n "${STORE:-}" ]]; then
  buildah+=(--root "$STORE/images" --runroot "$STORE/run")
fi
options=()
if [[ -n "${TRUST:-}" ]]; then
  options+=(--volume "$TRUST:/run/trust.crt:ro" --build-arg PIP_CERT=/run/trust.crt)
fi

if [[ -z "$base" ]]; then
  base=localhost/podium-base
  root="$(mktemp --suffix=.tar)"
  trap 'rm -f "$root"' EXIT
  mmdebstrap --variant=minbase --include=python3,python3-venv,python3-pip,python-is-python3,ca-certificates bookworm "$root"
  container="$("${buildah[@]}" from scratch)"
  "${buildah[@]}" add "$container" "$root" /
  "${buildah[@]}" commit --rm "$container" "$base"
fi

"${buildah[@]}" bud --isolation chroot --network host "${options[@]}" --build-arg "BASE=$base" -t "$tag" .

# It must run as it will be run: as nobody, without a shell, and able to read its own configuration.
container="$("${buildah[@]}" from "localhost/$tag")"
trap '"${buildah[@]}" rm "$container" > /dev/null; rm -f "${root:-}"' EXIT
"${buildah[@]}" run --isolation chroot "$container" -- /opt/podium/bin/podium --version
"${buildah[@]}" run --isolation chroot "$container" -- /opt/podium/bin/podium config > /dev/null
"${buildah[@]}" images "localhost/$tag"
