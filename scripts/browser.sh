#!/usr/bin/env bash
# Installs a browser and its driver for the tests. The browser is the installed Chromium, or Debian's, or, if
# neither is available, one from npm with its libraries and fonts. The driver comes from npm too, in the versions
# pinned in tests/browser/. npm packages are installed once, below the target folder, and again when the pins
# change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/install.sh
source scripts/install.sh

usage() {
  cat <<'USAGE'
Usage: scripts/browser.sh install  installs what is missing
       scripts/browser.sh env      prints the variables to export:  eval "$(scripts/browser.sh env)"
USAGE
}

PINS=tests/browser
PEERS=$(peers_folder)
DRIVER_FOLDER=$PEERS/browser
BUNDLED_FOLDER=$PEERS/chromium
BUNDLED=$BUNDLED_FOLDER/chromium.sh
# Folder for the screenshots of the tests.
PICTURES=$(dirname "$PEERS")/browser

# The package is made for another environment; only its files are used, none of its code.
install_bundled() {
  local stamp from=$BUNDLED_FOLDER/node_modules
  stamp=$(npm_stamp "$PINS/chromium")
  echo "installing a Chromium from npm"
  if [[ $(uname -m) != x86_64 ]]; then
    echo "npm only has one for x86_64"
    return 1
  fi
  from_npm "$PINS/chromium" "$BUNDLED_FOLDER" || return 1
  unpack "$from/@sparticuz/chromium/bin" "$BUNDLED_FOLDER" || return 1
  chmod +x "$BUNDLED_FOLDER/chromium" || return 1
  cat >"$BUNDLED_FOLDER/fonts.conf" <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$BUNDLED_FOLDER/fonts</dir>
  <dir>$from/@expo-google-fonts/noto-sans-jp/400Regular</dir>
  <dir>$from/@expo-google-fonts/noto-sans-jp/700Bold</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>$BUNDLED_FOLDER/fonts-cache</cachedir>
</fontconfig>
FONTS
  cat >"$BUNDLED" <<START
#!/bin/sh
export LD_LIBRARY_PATH='$BUNDLED_FOLDER/lib' FONTCONFIG_FILE='$BUNDLED_FOLDER/fonts.conf'
exec '$BUNDLED_FOLDER/chromium' "\$@"
START
  chmod +x "$BUNDLED" || return 1
  echo "$stamp" >"$BUNDLED_FOLDER/stamp"
}

# unpack FROM TO: unpacks the browser, its libraries and a font. Node is used, as it can read Brotli.
unpack() {
  local name
  for name in chromium al2023.tar fonts.tar; do
    node -e 'const fs = require("fs"), [from, to] = process.argv.slice(1);
      fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)))' \
      "$1/$name.br" "$2/$name" || return 1
  done
  for name in al2023.tar fonts.tar; do
    tar -xf "$2/$name" -C "$2" && rm "$2/$name" || return 1
  done
}

starts() { "$1" --version >/dev/null 2>&1; }

# Prints the path of the browser; the installed one is preferred.
browser() {
  local own
  own=$(command -v chromium) && starts "$own" && echo "$own" && return
  is_there "$BUNDLED_FOLDER" "$(npm_stamp "$PINS/chromium")" && starts "$BUNDLED" && echo "$BUNDLED"
}

install_browser() {
  if browser >/dev/null; then
    echo "have $("$(browser)" --version 2>/dev/null)"
    return
  fi
  # Japanese pages need a Japanese font.
  debian chromium fonts-noto-cjk || true
  if browser >/dev/null; then return; fi
  echo "Debian's packages contain no Chromium that starts"
  install_bundled || true
  browser >/dev/null || no_browser
}

no_browser() {
  echo "no browser for the tests: install Chromium as 'chromium' on the path, then run again" >&2
  return 1
}

case ${1:-} in
  install)
    npm_packages "the browser driver" "$PINS" "$DRIVER_FOLDER"
    install_browser
    ;;
  env)
    found=$(browser) || no_browser
    printf 'export INTERZONE_TEST_BROWSER=%q\n' "$found"
    printf 'export INTERZONE_TEST_BROWSER_MODULES=%q\n' "$DRIVER_FOLDER/node_modules"
    printf 'export INTERZONE_TEST_BROWSER_PICTURES=%q\n' "$PICTURES"
    ;;
  *) usage && [[ ${1:-} == --help ]] ;;
esac
