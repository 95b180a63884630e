package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	api "outcry/clients/go/client"
	"outcry/cmd/internal/cli"
)

// unsent marks the error of a connection that was not made if that may pass by
// itself, and adds what most often is the reason.
func unsent(err error) error {
	if lasts(err) {
		return err
	}
	if errors.As(err, new(*net.OpError)) {
		err = fmt.Errorf("is the exchange running? %w", err)
	}
	return cli.NoAnswer(err)
}

// lasts reports whether the error of a connection that was not made says that a further
// try would end alike: the token, the certificates, or the address are wrong.
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
	// crypto/tls has no type for an alert of the exchange, but this name of the operation.
	return errors.As(err, &network) && network.Op == "remote error"
}

// unanswered adds to the error of a command without an answer what can be done.
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
	return cli.NoAnswer(fmt.Errorf("%w; retry with %s %s: it is done at most once, also later", err, name, ref))
}
