package api

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/valyala/fasthttp"
)

// Peer is the client's certificate, verified by TLS against the authorities that
// the listener trusts; nil where the connection has none.
func Peer(ctx *fasthttp.RequestCtx) *x509.Certificate {
	c := connOf(ctx)
	if c == nil || c.secure == nil {
		return nil
	}
	return VerifiedPeer(c.secure.ConnectionState())
}

// VerifiedPeer is the leaf of the chain that was verified, nil for none. A
// certificate that was sent and not verified is no tenant's.
func VerifiedPeer(state tls.ConnectionState) *x509.Certificate {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}
