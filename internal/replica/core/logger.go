package core

import "fmt"

// logger is the logger of package raft. Warnings and errors go to warn, lower levels are dropped.
// Fatal errors panic, and Node.run turns the panic into Broken.
type logger struct{ warn func(string) }

func (l logger) say(text string) {
	if l.warn != nil {
		l.warn(text)
	}
}

func (l logger) Debug(...any)                     {}
func (l logger) Debugf(string, ...any)            {}
func (l logger) Info(...any)                      {}
func (l logger) Infof(string, ...any)             {}
func (l logger) Warning(v ...any)                 { l.say(fmt.Sprint(v...)) }
func (l logger) Warningf(format string, v ...any) { l.say(fmt.Sprintf(format, v...)) }
func (l logger) Error(v ...any)                   { l.say(fmt.Sprint(v...)) }
func (l logger) Errorf(format string, v ...any)   { l.say(fmt.Sprintf(format, v...)) }
func (l logger) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l logger) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (l logger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l logger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
