// Package exchangetest starts real exchanges for tests of the command-line programs.
package exchangetest
