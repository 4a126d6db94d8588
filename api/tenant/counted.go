package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// A router and its replicas may have one store: those of one user on one machine have it by default. What a request uses is then
// counted once, by the router, which knows whose it is. It says so with a code over the request's id under a secret of the store's pepper,
// so that only servers on the same store understand it, and nothing but such a server can say it.

// counter makes and checks these codes; nil: there is no store to count in.
type counter struct{ secret []byte }

func newCounter(p Pepper) (*counter, error) {
	secret, err := p.Derive("counted requests")
	return &counter{secret}, err
}

// code is that of a request.
func (c *counter) code(request string) string {
	mac := hmac.New(sha256.New, c.secret)
	mac.Write([]byte(request))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Counted is the value of router.CountedHeader for a request that this server counts, by the id under which it is passed on; "" where it has no
// store.
func (a *Authenticator) Counted(request string) string {
	if a.counter == nil {
		return ""
	}
	return a.counter.code(request)
}

// isCounted reports whether a server on the same store counts the request.
func (a *Authenticator) isCounted(p *Proof) bool {
	return a.counter != nil && p.Counted != "" && hmac.Equal([]byte(p.Counted), []byte(a.counter.code(p.Request)))
}
