#!/usr/bin/env bash
# Names everything that set-up needs and this machine lacks, and how to get it.
set -u
missing=0
lacks() { printf 'missing: %s\n    %s\n' "$1" "$2" >&2; missing=1; }

if [ -z "${PYTHON:-}" ] || ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
  lacks "Python 3.11 (python3.11 on PATH, or make PYTHON=/path/to/python3.11)" \
    "Debian 12: apt-get install python3.11 python3.11-venv; macOS: brew install python@3.11; anywhere: pyenv install 3.11"
elif ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
  lacks "Python's venv module" "Debian: apt-get install python3.11-venv"
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
if [ "${version:-0}" != 17 ]; then
  lacks "JDK 17 (found: ${version:-none}; JAVA_HOME chooses)" \
    "Debian 12: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17"
elif ! "${java}c" -version >/dev/null 2>&1; then
  lacks "JDK 17's compiler, javac (a JRE alone has none)" "Debian 12: apt-get install openjdk-17-jdk-headless"
fi
command -v mvn >/dev/null || lacks "Maven" "Debian: apt-get install maven; macOS: brew install maven"
command -v git >/dev/null || lacks "git" "Debian: apt-get install git; macOS: xcode-select --install"
exit $missing
