package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal"
)

// printJournal prints every record of the journal in dir, or in the data
// directory dir. It changes nothing, and may be used while the exchange runs.
func printJournal(dir string, w io.Writer) error {
	below := filepath.Join(dir, "journal")
	inside, err := isDir(below)
	if err != nil {
		return err
	}
	if inside {
		dir = below
	}
	there, err := journal.Exists(dir)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no journal in %s", dir)
	}
	var e exchange.Event
	return journal.Scan(dir, exchange.EventVersion, func(seq uint64, record []byte) error {
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		_, err := fmt.Fprintf(w, "%d %s %s%s\n", seq, time.Unix(0, e.Time).UTC().Format(time.RFC3339), describe(&e),
			ofRef(&e))
		return err
	})
}

// ofRef says which ref a record has, if it has one.
func ofRef(e *exchange.Event) string {
	if e.Ref == "" {
		return ""
	}
	return "; ref " + string(e.Ref)
}

// isDir reports whether path is a directory. The error says why that cannot be known,
// which does not mean that there is none: it may be closed to this user.
func isDir(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// requireDir returns nil if path is a directory, the error that missing formats if there
// is none, and the reason if that cannot be known.
func requireDir(path, missing string, args ...any) error {
	is, err := isDir(path)
	if err == nil && !is {
		err = fmt.Errorf(missing, args...)
	}
	return err
}

// describe says in words what a record did.
func describe(e *exchange.Event) string {
	switch e.Kind {
	case exchange.AccountOpened:
		return fmt.Sprintf("account %s opened with %s", e.Account, e.Balance)
	case exchange.SymbolMade:
		return fmt.Sprintf("symbol %s made", e.Symbol)
	case exchange.SharesDeposited:
		return fmt.Sprintf("%s %s placed with account %s", e.Deposited, e.Symbol, e.Account)
	case exchange.OrderCanceled:
		return fmt.Sprintf("order %d of account %s canceled, %s %s were open", e.Order, e.Account, e.Shares, e.Symbol)
	case exchange.SymbolHalted:
		return fmt.Sprintf("symbol %s halted: %s", e.Symbol, e.Reason)
	case exchange.SymbolResumed:
		return fmt.Sprintf("symbol %s resumed", e.Symbol)
	case exchange.OrdersCanceled:
		s := fmt.Sprintf("all of account %s canceled", e.Account)
		for _, c := range e.Cancels {
			s += fmt.Sprintf("; order %d, %s %s were open", c.Order, c.Shares, c.Symbol)
		}
		return s
	case exchange.OrderContinued:
		return fmt.Sprintf("order %d of account %s goes on after %d executions: %s %s %s at %s%s", e.Order, e.Account,
			e.Before, e.Side, e.Shares, e.Symbol, e.Limit, describeFills(e))
	case exchange.OrderAccepted:
		return fmt.Sprintf("order %d of account %s: %s %s %s at %s%s", e.Order, e.Account, e.Side, e.Shares, e.Symbol,
			e.Limit, describeFills(e))
	}
	panic("a record of unknown kind " + e.Kind.String()) // DecodeEvent lets none pass
}

// describeFills says what an order was filled with.
func describeFills(e *exchange.Event) (s string) {
	for _, f := range e.Fills {
		s += fmt.Sprintf("; filled %s at %s with order %d of account %s", f.Shares, f.Price, f.Resting, f.Account)
	}
	return s
}
