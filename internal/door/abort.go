package door

import "errors"

// ErrAborted is the error of Answer, Call and Wait after Abort was called.
var ErrAborted = errors.New("session: this machine no longer serves clients")

// Abort closes the listeners and all connections at once, without a last reply. Every call of Answer ends
// with ErrAborted or an error of the exchange. Replies that the kernel does not have by then are never sent.
// Abort does not wait: call Shutdown afterwards, which waits until no goroutine is left. It is for a machine
// that is no longer the leader.
func (s *Server) Abort() {
	s.aborted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.cutOff()
	}
	// Cancel the context only after the connections are closed: a session whose wait ends would otherwise
	// send that the exchange is stopping. No session can begin in between, because open needs mu.
	s.cutOff()
	for _, l := range s.listeners {
		l.Close()
	}
}
