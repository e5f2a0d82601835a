#!/usr/bin/env bash
# Builds podium's image without a container engine, with Debian's buildah in a chroot: deploy/image/build.sh [BASE]
# Without BASE (an image with Python 3.11 or later) one is made of Debian's packages by mmdebstrap. Run as root.
# STORE: where images are kept (default: buildah's own). TRUST: a CA file that both stages need to reach their index.
set -euo pipefail
cd "$(dirname "$0")/../.."

base="${1:-}"
tag="podium:$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)"
buildah=(buildah --storage-driver vfs)
if [[ -n "${STORE:-}" ]]; then
  buildah+=(--root "$STORE/images" --runroot "$STORE/run")
fi

if [[ -z "$base" ]]; then
  base=localhost/podium-base
  root="$(mktemp --suffix=.tar)"
  trap 'rm -f "$root"' EXIT
  mmdebstrap --variant=minbase --include=python3,python3-venv,python3-pip,python-is-python3,ca-certificates bookworm "$root"
  container="$("${buildah[@]}" from scratch)"
  "${buildah[@]}" add "$container" "$root" /
  if [[ -n "${TRUST:-}" ]]; then
    "${buildah[@]}" copy "$container" "$TRUST" /etc/ssl/certs/ca-certificates.crt
  fi
  "${buildah[@]}" commit --rm "$container" "$base"
fi

"${buildah[@]}" bud --isolation chroot --network host --build-arg "BASE=$base" -t "$tag" .

# It must run as it will be run: as nobody, and able to read its own configuration.
container="$("${buildah[@]}" from "localhost/$tag")"
"${buildah[@]}" run --isolation chroot "$container" -- /opt/podium/bin/podium --version
"${buildah[@]}" run --isolation chroot "$container" -- /opt/podium/bin/podium config > /dev/null
"${buildah[@]}" rm "$container" > /dev/null
"${buildah[@]}" images "localhost/$tag"
