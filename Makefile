# What is released: `make release`, of `make binaries` and `make deb`. What has to hold:
# `make check` before a commit, .ci/run before it is taken, `make prove` before a release.
# `make module PATH=example.org/outcry` gives the module the path that it is published at.

OUT ?= build

# The packages' files have the time of the commit, so that the same commit makes the
# same bytes; in a source archive that is the time of each file.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y go.mod)

# PATH is also where the shell looks for programs, and make would hand the new one to it.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := /usr/local/bin:/usr/bin:/bin
endif

.PHONY: binaries deb release module reference check prove clean

# Static, and without paths of this machine. The Dockerfile calls this as well. Where git
# knows the commit, the linker is told it: Go does not know it in each kind of checkout.
COMMIT = $(shell git describe --always --abbrev=40 --exclude='*' --dirty=-modified 2>/dev/null)
LINKED = -X $(shell sed -n 's/^module //p' go.mod)/internal/process/version.linked=$(COMMIT)
binaries:
	CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags='-s -w $(LINKED)' -o $(OUT)/ ./cmd/outcryd ./cmd/outcry ./cmd/outcry-lab

# Needs dpkg-deb. VERSION is the package's version; by default git's.
deb: binaries
	deploy/debian/build.sh $(OUT)

# Archives of static programs, Debian packages, the Python wheel and checksums, in
# $(OUT)/release. Needs dpkg-deb, and pip, which fetches what makes wheels.
TARGETS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RELEASE = $(shell sed -n 's/^const Number = "\(.*\)"/\1/p' internal/process/version/version.go)
release:
	deploy/release/release.sh $(OUT)/release $(RELEASE) $(TARGETS)

module:
	@deploy/release/module.sh '$(MODULE)'

# Writes docs/reference, docs/asyncapi.yaml and the page's openapi.json, which are made of the code and of docs. Tests
# compare them, and say when this must be run.
reference:
	go test ./internal/lab/bench ./internal/lab/grade/script ./internal/operate/settings ./internal/door/binance ./internal/exchange ./internal/door/jsonrpc ./internal/door/web ./internal/testing/archtest ./cmd/outcryd ./cmd/outcry ./cmd/outcry-lab -run '^TestReference' -count=1 -update

# A few minutes, and nothing is installed. Four test programs run at a time, since they wait
# for sockets, disks and Postgres.
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	go build -C .ci/tools -o $(abspath $(OUT))/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(abspath $(OUT))/staticcheck ./...
	go test -vet=off -p 4 ./...

# The long forms of what CI looks at for a minute, in parts that can run alone, each under an hour on two cores:
# make prove-race, make prove-fuzz-3. Set FUZZTIME for less; every sixth target of fuzzing is a part.
FUZZTIME ?= 9m
PROVED = race race-programs long ordinary simulation release operations benchmarks overload torture cluster books \
  mutation load $(FUZZED)
FUZZED = fuzz-1 fuzz-2 fuzz-3 fuzz-4 fuzz-5 fuzz-6
.PHONY: $(PROVED:%=prove-%) prove-steady bench-guard
prove: $(PROVED:%=prove-%) bench-guard

PROGRAMS = /(cmd|internal/lab|loadtest)($$|/)
prove-race:
	go test -race -tags full,slow -timeout 55m $$(go list ./... | grep -vE '$(PROGRAMS)')

prove-race-programs:
	go test -race -tags full,slow -timeout 55m $$(go list ./... | grep -E '$(PROGRAMS)')

# In full length also what the race detector slows down too much.
prove-long:
	go test -tags full,slow -timeout 55m ./...

prove-ordinary:
	.ci/ordinary -vet=off -p 4 -timeout 55m ./...

prove-simulation:
	go test -timeout 55m ./internal/replica/core -seeds 10000

prove-release:
	go test -count=1 -tags release ./deploy/release

prove-operations:
	go test -count=1 -timeout 55m -parallel 3 -tags operations ./deploy/check

prove-benchmarks:
	.ci/benchmarks

# Clients that are hostile or too many, at full size: up to 10,000 connections at a time.
prove-overload:
	go test -count=1 -vet=off -timeout 55m ./internal/door -run Overload -overload

prove-torture:
	go run ./loadtest torture -plan long
	go run ./loadtest torture -plan restart=10 -down 1s

prove-cluster:
	go run ./loadtest torture -cluster -books -plan long

prove-books:
	go run ./loadtest books -duration 10m -kills 10

prove-mutation:
	go run ./loadtest mutation

prove-load:
	go run ./loadtest bench quick -procs 1,2 -repeat 1
	go run ./loadtest bench soak -duration 60s -rate 500

# What an order costs, beside a recorded revision. No figure fails it, and without that revision in git it is skipped.
# GUARD has flags: make bench-guard GUARD='-n 1 -d 1s'.
GUARD ?=
bench-guard:
	go run ./loadtest guard $(GUARD)

$(FUZZED:%=prove-%): prove-fuzz-%:
	.ci/fuzz $(FUZZTIME) $*/6

# Two hours at most: each test many times in a row. STEADY names packages, for less.
STEADY ?=
prove-steady:
	.ci/steady $(STEADY)

clean:
	rm -rf $(OUT)
