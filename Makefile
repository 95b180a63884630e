# What is released: `make binaries` and `make deb`. What has to hold: `make check` before a
# commit, .ci/run before it is taken, `make prove` before a release.

OUT ?= build

# The packages' files have the time of the commit, so that the same commit makes the
# same bytes.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

.PHONY: binaries deb reference check prove clean

# Static, and without paths of this machine. The Dockerfile calls this as well.
binaries:
	CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags='-s -w' -o $(OUT)/ ./cmd/outcryd ./cmd/outcry

# Needs dpkg-deb. VERSION is the package's version; by default git's.
deb: binaries
	deploy/debian/build.sh $(OUT)

# docs/reference is made of the code. Tests compare it, and say when this has to be run.
reference:
	go run ./loadtest pages
	go test ./internal/settings ./internal/exchange ./internal/testing/archtest ./cmd/outcryd -run '^TestReference' -count=1 -update

# A few minutes, and nothing is installed. Four test programs run at a time, since they wait
# for sockets, disks and Postgres.
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	go build -C .ci/tools -o $(abspath $(OUT))/staticcheck honnef.co/go/tools/cmd/staticcheck
	$(abspath $(OUT))/staticcheck ./...
	go test -vet=off -p 4 ./...

# Hours: the long forms of what CI looks at for a minute. Set FUZZTIME for less.
FUZZTIME ?= 10m
prove:
	go test -race -tags slow -timeout 60m ./...
	go test -timeout 60m -tags slow -run '^(TestARandomSessionAgreesWithTheModel|TestSixteenConnectionsAddUp)$$' ./cmd/outcryd
	go run ./loadtest torture -plan long
	go run ./loadtest mutation
	go run ./loadtest restart
	.ci/fuzz $(FUZZTIME)

clean:
	rm -rf $(OUT)
