# Everything a developer or CI needs. Go and make are enough.

GO      ?= go
PREFIX  ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE    ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
STAMP   := choria-provision/commands
LDFLAGS := -s -w -X $(STAMP).release=$(VERSION) -X $(STAMP).commit=$(COMMIT) -X $(STAMP).date=$(DATE)

# Versions of the tools, pinned: they are run through the module proxy.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GREMLINS    := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0

# What each fuzz test runs for, one after the other, with one worker.
FUZZTIME  ?= 10m
FUZZFLAGS := -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -parallel 1

# go-choria's modules have no row in the checksum database; go.sum pins them.
export GONOSUMDB = github.com/choria-io/*

.PHONY: build test lint stats demo cover bench soak kill outages man picture packages install fuzz vuln mutate

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/provision .

test:
	$(GO) test -race -timeout 20m -parallel 4 ./... # most tests wait for servers, not for the processor
	cd tools && $(GO) test -race -timeout 20m ./... # Pushgateway and Prometheus: a module of its own
	cd internal/bench && $(GO) test -race -timeout 20m ./... # likewise, so that the product depends on nothing of its
	cd packaging/build && $(GO) test -timeout 20m ./... # builds all packages three times and installs them

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt: run gofmt -w on these files'; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(GOLANGCI) run ./... # rules and their reasons: .golangci.yml
	$(GO) mod verify
	$(GO) mod tidy -diff
	cd tools && $(GO) vet ./... && $(GO) run $(GOLANGCI) run ./... && $(GO) mod verify && $(GO) mod tidy -diff
	cd internal/bench && $(GO) vet ./... && $(GO) run $(GOLANGCI) run ./... && $(GO) mod tidy -diff # its modules are among those verified above
	cd packaging/build && $(GO) vet ./... && $(GO) run $(GOLANGCI) run ./... && $(GO) mod verify && $(GO) mod tidy -diff

# stats prints what can be measured of the source beside its target;
# DIR measures another checkout.
DIR ?= .
stats:
	cd tools && $(GO) run ./stats -dir "$(abspath $(DIR))"

# packages builds deb, rpm, OCI image, SBOM and checksums into bin/packages, the
# same bytes for the same commit.
packages:
	cd packaging/build && $(GO) run .

# install puts what `make build` made below DESTDIR, with PREFIX for /usr/local.
install:
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" packaging/install.sh

demo: build
	bin/provision lab --nodes 5 -- provision once

# Half an hour of nodes that come, fail, go and come back, some 36 a second;
# make test has a minute of it.
soak:
	PROVISION_SOAK=30m PROVISION_SOAK_NODES=2400 $(GO) test ./commands -run TestSoak -timeout 45m -v

# kill ends one of three hosts with shared records at a random time, 100 times.
kill:
	PROVISION_HOST_KILLS=100 $(GO) test ./commands -run TestKilledHosts -timeout 45m -v

# outages stops the broker of an 800 node run for 1, 5 and 30 s, each at ten
# random moments; make test has a short one.
outages:
	PROVISION_OUTAGES=10 $(GO) test ./commands -run TestABrokerThatIsAwayForAMoment -timeout 45m -v

# fuzz runs every Fuzz function; what it finds stays in testdata/fuzz and is a
# test from then on.
fuzz:
	$(GO) test -run '^$$' ./... >/dev/null # what does not build would have no list
	$(GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ {n[++i] = $$1} /^ok/ {while (i) print $$2, n[i--]}' | while read -r pkg name; do \
		echo "$$pkg $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" $(FUZZFLAGS) "$$pkg" || exit 1; done

# vuln needs the Go vulnerability database; see docs/security.md.
vuln:
	$(GO) run $(GOVULNCHECK) ./...

# mutate changes operators one at a time in PKG and runs its tests against each
# change; see docs/mutation.md. It wants a machine that does nothing else: a test
# that runs out of time counts for nothing.
PKG ?= ./discovery
mutate:
	$(GO) run $(GREMLINS) unleash $(PKG) --workers 1 --timeout-coefficient 30 $(MUTATEFLAGS)

cover:
	$(GO) test -coverpkg=./... -coverprofile=cover.out ./...
	$(GO) tool cover -func=cover.out | tail -n 1

# The man pages follow the commands and docs/configuration.md; tests fail when
# they do not.
man:
	$(GO) test ./commands -run TestManPageIsCurrent -update
	cd packaging/build && $(GO) run ./manpage <../../docs/configuration.md >../../docs/provision.yaml.5

# picture takes the README's picture of a run in a lab anew.
picture:
	$(GO) test ./commands -run 'TestPicture' -count 1 -update

# bench measures against go-choria's stock clients, for some twenty minutes on a
# machine that does nothing else, and writes what it saw into
# docs/performance.md. It needs a C compiler: a helper in Go would take longer to
# start than the rest of a node takes. TMPDIR chooses the file system; rows
# that are told with records in memory have them in /dev/shm.
bench: build
	$(CC) -O2 -static -Wall -Wextra -Werror -o bin/tinyhelper internal/bench/tinyhelper/tinyhelper.c
	cd internal/bench && $(GO) build -trimpath -o ../../bin/bench .
	$(GO) test -run '^$$' -bench . -count 3 ./internal/network | tee bin/calls.txt
	bin/bench -calls bin/calls.txt -profile bin/bench.pprof -doc docs/performance.md
	$(GO) test -run '^$$' -bench . -count 3 ./provision ./provision/installstate
