package main

import (
	"fmt"
	"net"

	"outcry/internal/process/listen"
)

// bindBoth binds the addresses of the XML port and of the HTTP side. It returns the HTTP
// address, or nil if HTTP is off. After an error neither address stays bound.
func (s *server) bindBoth() (http *listen.Bound, err error) {
	if s.xmlAddr, err = listen.Bind("listen", s.config.Listen); err != nil {
		return nil, err
	}
	var httpAddr net.Addr
	if s.config.HTTP != "" {
		if http, err = listen.Bind("http", s.config.HTTP); err == nil {
			httpAddr = http.Addr
		}
		// the kernel reports the conflict only when both sockets listen
		if err == nil && listen.Overlap(s.xmlAddr.Addr, httpAddr) {
			err = fmt.Errorf("--http %s: same address as --listen, %s; give another address with --http",
				s.config.HTTP, s.config.Listen)
		}
	}
	if err == nil {
		err = s.config.RefuseOpen(s.xmlAddr.Addr, httpAddr)
	}
	if err != nil {
		s.xmlAddr.Close()
		http.Close()
		return nil, err
	}
	return http, nil
}
