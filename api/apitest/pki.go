// Package apitest has what tests of listeners share: an authority, and certificates that it signed.
//
//	pki := apitest.NewPKI(t)
//	pki.Issue("acme", "acme")    // a certificate cn:acme
//	files := pki.Files()         // what the listener is started with
//	client := pki.Client("acme") // shows the certificate
package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/api"
)

// patience is how long an answer may take before a test gives up.
const patience = 2 * time.Minute

// PKI is a test's authority, and the files of a server that it signed.
type PKI struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewPKI makes an authority and the certificates of a server and of its clients.
func NewPKI(t *testing.T) *PKI {
	t.Helper()
	p := &PKI{t: t, dir: t.TempDir()}
	p.key = p.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.write("ca.crt", "CERTIFICATE", der)
	p.Issue("server", "server")
	return p
}

func (p *PKI) newKey() *ecdsa.PrivateKey {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	return key
}

// Path is where a file of the authority is.
func (p *PKI) Path(file string) string { return filepath.Join(p.dir, file) }

func (p *PKI) write(file, kind string, der []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.Path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// Issue writes FILE.crt and FILE.key with a certificate for a common name.
func (p *PKI) Issue(file, name string) {
	p.t.Helper()
	own := p.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, p.cert, own.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(file+".crt", "CERTIFICATE", der)
	p.write(file+".key", "PRIVATE KEY", text)
}

// Files are those of a server that asks clients for certificates.
func (p *PKI) Files() api.TLSFiles {
	return api.TLSFiles{Certificate: p.Path("server.crt"), Key: p.Path("server.key"), ClientCA: p.Path("ca.crt")}
}

// Client trusts the authority and shows the certificate of a file, "" for none.
func (p *PKI) Client(file string) *http.Client {
	p.t.Helper()
	transport := &http.Transport{TLSClientConfig: p.ClientTLS(file)}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// ClientTLS shows the certificate of a name; "" shows none.
func (p *PKI) ClientTLS(file string) *tls.Config {
	p.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(p.cert)
	if file != "" {
		pair, err := tls.LoadX509KeyPair(p.Path(file+".crt"), p.Path(file+".key"))
		if err != nil {
			p.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}
