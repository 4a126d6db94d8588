package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/configs"
)

// tlsFilesEvery is how often the files of TLS are looked at.
const tlsFilesEvery = 10 * time.Second

// newTLS reads the files of TLS, where it is on.
func (s *Server) newTLS() (err error) {
	if s.config.Server.TLS.On() {
		s.tls, err = api.NewTLS(s.config.Server.TLS)
	}
	return err
}

// tlsFiles is the live part of TLS: other files, or what the same ones hold now.
func (s *Server) tlsFiles(c configs.Config) (commit func(), err error) {
	if s.tls == nil || !c.Server.TLS.On() {
		return func() {}, nil // switching it needs a restart
	}
	return s.tls.Prepare(c.Server.TLS)
}

// refreshTLS takes what the files of TLS hold whenever that changes, until ctx ends.
func (s *Server) refreshTLS(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.lookAtTLS()
		}
	}
}

func (s *Server) lookAtTLS() {
	switch changed, err := s.tls.Refresh(); {
	case err != nil:
		s.log.Error("the files of TLS changed and are not good; the last good ones stay in force", zap.Error(err))
	case changed:
		s.log.Info("the files of TLS changed; new connections get the new certificate")
	}
}

// overTLS is the second listener, over TLS where that is set.
func (s *Server) overTLS(second net.Listener) net.Listener {
	if !s.secondTLS() {
		return second
	}
	return tls.NewListener(second, s.tls.Config())
}

func (s *Server) secondTLS() bool { return s.tls != nil && s.config.Server.TLSAdmin }

func (s *Server) apiURL() string { return baseURL(s.listener, s.tls != nil) }

func (s *Server) secondURL() string { return baseURL(s.second, s.secondTLS()) }

// secondTrouble takes what net/http reports of the second listener. Failed handshakes
// are no more news than on the API's.
type secondTrouble struct{ log *zap.Logger }

func (s secondTrouble) Write(line []byte) (int, error) {
	level := zap.ErrorLevel
	if bytes.Contains(line, []byte("TLS handshake error")) {
		level = zap.DebugLevel
	}
	s.log.Log(level, "second listener", zap.ByteString("trouble", bytes.TrimSpace(line)))
	return len(line), nil
}
