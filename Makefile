# What is released: `make binaries` and `make deb`. Everything else is go build and go test.

OUT ?= build

# The packages' files have the time of the commit, so that the same commit makes the
# same bytes.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)

.PHONY: binaries deb clean

# Static, and without paths of this machine. The Dockerfile calls this as well.
binaries:
	CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags='-s -w' -o $(OUT)/ ./cmd/outcryd ./cmd/outcry

# Needs dpkg-deb. VERSION is the package's version; by default git's.
deb: binaries
	deploy/debian/build.sh $(OUT)

clean:
	rm -rf $(OUT)
