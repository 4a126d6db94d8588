package server

import (
	"bytes"
	"context"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/configs"
)

// tlsFilesEvery is how often the files of TLS are looked at.
const tlsFilesEvery = 10 * time.Second

// certificates are those of the listeners, and follow their files. nil: the listeners speak without TLS.
type certificates struct {
	*api.TLS
	log *zap.Logger
}

// newCertificates reads the files of TLS, where it is on.
func newCertificates(c configs.Server, log *zap.Logger) (*certificates, error) {
	if !c.TLS.On() {
		return nil, nil
	}
	t, err := api.NewTLS(c.TLS)
	return &certificates{t, log}, err
}

// files is the live part of TLS: other files, or what the same ones hold now.
func (t *certificates) files(c configs.Config) (commit func(), err error) {
	if t == nil || !c.Server.TLS.On() {
		return func() {}, nil // switching it needs a restart
	}
	return t.Prepare(c.Server.TLS)
}

// follow takes what the files hold whenever that changes, until ctx ends.
func (t *certificates) follow(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			t.look()
		}
	}
}

func (t *certificates) look() {
	switch changed, err := t.Refresh(); {
	case err != nil:
		t.log.Error("the files of TLS changed and are not good; the last good ones stay in force", zap.Error(err))
	case changed:
		t.log.Info("the files of TLS changed; new connections get the new certificate")
	}
}

// adminTrouble takes what net/http reports of the admin listener. Failed handshakes
// are no more news than on the API's.
type adminTrouble struct{ log *zap.Logger }

func (s adminTrouble) Write(line []byte) (int, error) {
	level := zap.ErrorLevel
	if bytes.Contains(line, []byte("TLS handshake error")) {
		level = zap.DebugLevel
	}
	s.log.Log(level, "admin listener", zap.ByteString("trouble", bytes.TrimSpace(line)))
	return len(line), nil
}
