package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
)

// unsent wraps the error of a connection that could not be made. If the error may be temporary, it is marked
// for a retry and gets a hint at the likely reason.
func unsent(err error) error {
	if lasts(err) {
		return err
	}
	if errors.As(err, new(*net.OpError)) {
		err = fmt.Errorf("is the exchange running? %w", err)
	}
	return cli.NoAnswer(err)
}

// lasts reports whether redialing is pointless after this error: the token, the certificates or the address
// are wrong.
func lasts(err error) bool {
	var network *net.OpError
	switch {
	case errors.Is(err, api.ErrInsecureToken), errors.Is(err, api.ErrNeedsTLS),
		errors.As(err, new(*api.Unauthorized)),
		errors.As(err, new(*tls.CertificateVerificationError)),
		errors.As(err, new(tls.RecordHeaderError)),
		errors.As(err, new(*net.AddrError)):
		return true
	}
	// crypto/tls has no error type for an alert from the peer, only this name of the operation.
	return errors.As(err, &network) && network.Op == "remote error"
}

// unanswered adds advice to the error of a command that got no reply.
func unanswered(err error, command api.Command) error {
	var refused *api.Unauthorized
	ref, name := command.Ref, "--ref"
	switch command.Kind {
	case api.KindQuery, api.KindCancel:
		ref = ""
	case api.KindAmend:
		ref, name = command.NewRef, "--new-ref"
	}
	switch {
	case !api.MaybeDone(err) && errors.Is(err, api.ErrNeedsTLS):
		return fmt.Errorf("%w; connect with --tls-ca", err)
	case !api.MaybeDone(err) && errors.As(err, &refused) && refused.None:
		return fmt.Errorf("%w; give a token with --token-file", err)
	case !api.MaybeDone(err) && !errors.As(err, new(*api.Broken)) && !errors.As(err, new(*api.GaveUp)):
		return err // the command itself is wrong
	case ref == "":
		return cli.NoAnswer(err)
	}
	return cli.NoAnswer(fmt.Errorf("%w; retry with %s %s, now or later: the command is executed at most once", err, name,
		ref))
}
