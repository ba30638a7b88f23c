# heddle: what a user types. Each target installs what it needs and is missing (scripts/setup);
# a second time nothing is missing and no network is needed.
#
#   make run                         build, serve ./site at http://127.0.0.1:8080
#   make run DIR=folder PORT=8000    serve another folder
#   make test                        every check that this machine can run
#   make install PREFIX=/usr/local   command, library, headers, manual, completions

PREFIX ?= /usr/local
DESTDIR ?=
ADDR ?= 127.0.0.1
PORT ?= 8080
DIR ?= site

CARGO ?= cargo
INSTALL ?= install
TARGET = $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/release

all: build

run: setup-run
	$(CARGO) run --release --locked -p heddle-cli --bin heddle -- \
		serve "$(DIR)" --addr "$(ADDR)" --port "$(PORT)"

build: setup-run
	$(CARGO) build --release --locked -p heddle-cli -p heddle-capi -p heddle-user
	@sh user/link-shared.sh "$(TARGET)/libheddle_user.a" "$(TARGET)"

test: setup-test
	$(CARGO) xtask ci full

quick: setup-test
	$(CARGO) xtask ci quick

setup-run:
	@sh scripts/setup run

setup-test:
	@sh scripts/setup test

install: build
	CARGO_TARGET="$(TARGET)" INSTALL="$(INSTALL)" PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" \
		sh scripts/install

clean:
	$(CARGO) clean

.PHONY: all run build test quick setup-run setup-test install clean
