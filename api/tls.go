package api

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// TLSFiles name the PEM files that listeners speak TLS with.
type TLSFiles struct {
	Certificate string // the server's chain, its own certificate first; empty is no TLS
	Key         string // of that certificate
	ClientCA    string // the authorities whose client certificates are taken; empty: none is asked for
}

// On reports whether TLS is spoken at all.
func (f TLSFiles) On() bool { return f.Certificate != "" }

// pemBytes bounds a PEM file; bundles of public authorities have some 200 KiB.
const pemBytes = 4 << 20

// TLS is what listeners speak TLS with. New connections get what was committed last;
// those that are open keep what they began with.
type TLS struct {
	root *tls.Config
	now  atomic.Pointer[tls.Config]

	mu    sync.Mutex
	files TLSFiles
	tried pemTexts // read last, whether they were good or not
}

// pemTexts are the contents of TLSFiles.
type pemTexts struct{ certificate, key, clientCA []byte }

func (p pemTexts) equal(o pemTexts) bool {
	return bytes.Equal(p.certificate, o.certificate) && bytes.Equal(p.key, o.key) && bytes.Equal(p.clientCA, o.clientCA)
}

// NewTLS reads the files. The error names the file and what to do.
func NewTLS(f TLSFiles) (*TLS, error) {
	t := new(TLS)
	t.root = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.now.Load(), nil },
	}
	commit, err := t.Prepare(f)
	if err != nil {
		return nil, err
	}
	commit()
	return t, nil
}

// Config is for listeners. It stays valid whatever is committed.
func (t *TLS) Config() *tls.Config { return t.root }

// ConfigFor is Config for a listener of another protocol than HTTP/1.1, by its name in
// ALPN.
func (t *TLS) ConfigFor(protocol string) *tls.Config {
	type pair struct{ from, made *tls.Config }
	var last atomic.Pointer[pair]
	root := t.root.Clone()
	root.NextProtos = []string{protocol}
	root.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := t.now.Load()
		if p := last.Load(); p != nil && p.from == now {
			return p.made, nil
		}
		made := now.Clone()
		made.NextProtos = root.NextProtos
		last.Store(&pair{now, made})
		return made, nil
	}
	return root
}

// Prepare reads files that may be others than before. What they hold is put into
// force by commit.
func (t *TLS) Prepare(f TLSFiles) (commit func(), err error) {
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	config, err := f.parse(texts)
	if err != nil {
		return nil, err
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.files, t.tried = f, texts
		t.now.Store(config)
	}, nil
}

// Refresh looks whether the files changed and puts what they hold now into force.
// Files that are not good change nothing, and their error is returned once.
func (t *TLS) Refresh() (changed bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	texts, err := t.files.read()
	if t.tried.equal(texts) {
		return false, nil
	}
	t.tried = texts // of a file that cannot be read nothing, so that this too is told once
	if err != nil {
		return false, err
	}
	config, err := t.files.parse(texts)
	if err != nil {
		return false, err
	}
	t.now.Store(config)
	return true, nil
}

func (f TLSFiles) read() (p pemTexts, err error) {
	var errs [3]error
	p.certificate, errs[0] = readPEM(f.Certificate, "the certificate", "--tls-certificate")
	p.key, errs[1] = readPEM(f.Key, "the certificate's key", "--tls-key")
	if f.ClientCA != "" {
		p.clientCA, errs[2] = readPEM(f.ClientCA, "the authorities of clients", "--tls-client-ca")
	}
	return p, errors.Join(errs[:]...)
}

func readPEM(path, what, flag string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; name a PEM file that this user may read with %s", what, err, flag)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, pemBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w; name a PEM file with %s", what, err, flag)
	case len(text) > pemBytes:
		return nil, fmt.Errorf("read %s: %s is larger than %d bytes; name a PEM file with %s", what, path, pemBytes, flag)
	}
	return text, nil
}

// parse makes the configuration of one connection.
func (f TLSFiles) parse(p pemTexts) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(p.certificate, p.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s and the key %s: %w; --tls-certificate takes the PEM chain with the server's own "+
			"certificate first, --tls-key the PEM key that belongs to it, without a passphrase", f.Certificate, f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}
	if f.ClientCA == "" {
		return c, nil
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(p.clientCA) {
		return nil, fmt.Errorf("the authorities of clients: %s has no certificate; name a PEM file of certificates with --tls-client-ca", f.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven // keys and tokens work without a certificate
	c.SessionTicketsDisabled = true            // a resumed session would not be checked against authorities that changed
	return c, nil
}
