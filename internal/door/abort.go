package door

import "errors"

// ErrAborted is the error of Answer once Abort was called.
var ErrAborted = errors.New("session: this machine serves clients no more")

// Abort closes the listeners and all connections, at once and without a word, and has every
// call of Answer end with ErrAborted or an error of the exchange. What the kernel does not
// have by then is told to nobody. It does not wait: Shutdown, called after it, waits until no
// goroutine is left. It is for a machine that has ceased to lead.
func (s *Server) Abort() {
	s.aborted.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.cutOff()
	}
	// Only now: a session whose wait ends would say that the exchange is stopping. Nobody
	// is let in meanwhile, as that needs mu.
	s.cutOff()
	for _, l := range s.listeners {
		l.Close()
	}
}
