package tenant

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"weir/internal/inference"
)

// A weir that passes a request on says in whose name: which tenant, at which class and
// weight, with which cache domain. Weirs that share a key are peers, and believe one another.
// The statement is a JWS, in the header field router.CallerHeader.

const (
	// MinPeerKeyBytes is the least length of a peer key: that of HMAC-SHA-256's digest.
	MinPeerKeyBytes = 32

	peerLife     = time.Minute      // of a statement
	peerSkew     = 30 * time.Second // between the clocks of peers
	peerSeen     = 1 << 16          // statements that are remembered, so that none counts twice
	maxPeerBytes = 4 << 10          // of the header field
)

// Peers makes and checks the statements of peers. It is safe for concurrent use.
type Peers struct {
	keys   [][]byte
	signer jose.Signer

	mu   sync.Mutex
	seen recent[string, struct{}]
}

// NewPeers takes the keys that peers share. The first one signs, all verify: so that a key can
// be replaced at one peer after the other.
func NewPeers(keys []string) (*Peers, error) {
	if len(keys) == 0 {
		return nil, errors.New("peers need a key")
	}
	p := &Peers{}
	for _, k := range keys {
		if len(k) < MinPeerKeyBytes {
			return nil, fmt.Errorf("a peer key has %d bytes; it needs %d, best random ones", len(k), MinPeerKeyBytes)
		}
		p.keys = append(p.keys, []byte(k))
	}
	var err error
	if p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: p.keys[0]}, nil); err != nil {
		return nil, fmt.Errorf("sign with a peer key: %w", err)
	}
	p.seen = newRecent[string, struct{}](peerSeen)
	return p, nil
}

// statement is what a peer says of a request's caller.
type statement struct {
	ID      string `json:"jti"` // no statement counts twice
	Issued  int64  `json:"iat"` // seconds
	Expires int64  `json:"exp"`
	Tenant  string `json:"tenant"`
	Class   string `json:"class"`
	Highest string `json:"highest_class"`
	Weight  int    `json:"weight"`
	Group   string `json:"cache_group,omitempty"`

	Residency []string `json:"residency,omitempty"`

	Use string               `json:"use,omitempty"`               // "": of a request
	KV  inference.KVTransfer `json:"kv_transfer_params,omitzero"` // of the request's prompt
}

// useBlocks is the use of a statement with which a weir fetches KV blocks.
const useBlocks = "kv_blocks"

// Sign says that a request is one of t's, and where KV blocks of its prompt are. "" where t cannot be stated.
func (p *Peers) Sign(t *Tenant, kv inference.KVTransfer, now time.Time) string {
	return p.sign(statement{
		Tenant: t.Name, Class: t.Class.String(), Highest: t.HighestClass.String(), Weight: t.Weight, Group: t.CacheGroup, Residency: t.Residency, KV: kv,
	}, now)
}

// SignFetch says that a peer fetches KV blocks.
func (p *Peers) SignFetch(now time.Time) string { return p.sign(statement{Use: useBlocks}, now) }

func (p *Peers) sign(s statement, now time.Time) string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	s.ID, s.Issued, s.Expires = hex.EncodeToString(id[:]), now.Unix(), now.Add(peerLife).Unix()
	payload, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	signed, err := p.signer.Sign(payload)
	if err != nil {
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		return ""
	}
	return text
}

// Reasons of Denied.
var (
	deniedPeer     = &Denied{"the statement of a peer about its caller is not valid"}
	deniedPeerTime = &Denied{"the statement of a peer about its caller is too old, or its clock differs"}
	deniedReplay   = &Denied{"the statement of a peer about its caller was used before"}
)

// Verify is the tenant that a statement names, and what it says of KV blocks. Limits are the peer's to watch: the tenant
// has none here. A statement counts once; to look at it does not count. The error is a
// *Denied.
func (p *Peers) Verify(text string, look bool, now time.Time) (*Tenant, inference.KVTransfer, error) {
	s, err := p.read(text, now)
	if err != nil {
		return nil, inference.KVTransfer{}, err
	}
	t, err := s.of()
	if err != nil || s.Use != "" {
		return nil, inference.KVTransfer{}, deniedPeer
	}
	return t, s.KV, p.once(s, look)
}

// VerifyFetch reports whether the caller is a peer that fetches KV blocks.
func (p *Peers) VerifyFetch(text string, now time.Time) error {
	s, err := p.read(text, now)
	switch {
	case err != nil:
		return err
	case s.Use != useBlocks || s.ID == "":
		return deniedPeer
	}
	return p.once(s, false)
}

// once reports whether a statement was not used before.
func (p *Peers) once(s *statement, look bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen.Contains(s.ID) {
		return deniedReplay
	}
	if !look {
		p.seen.Add(s.ID, struct{}{})
	}
	return nil
}

// read checks a statement's key and time.
func (p *Peers) read(text string, now time.Time) (*statement, error) {
	if len(text) > maxPeerBytes {
		return nil, deniedPeer
	}
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return nil, deniedPeer
	}
	payload, ok := p.open(signed)
	var s statement
	if !ok || json.Unmarshal(payload, &s) != nil {
		return nil, deniedPeer
	}
	issued, expires := time.Unix(s.Issued, 0), time.Unix(s.Expires, 0)
	if expires.Sub(issued) > peerLife || now.Before(issued.Add(-peerSkew)) || now.After(expires.Add(peerSkew)) {
		return nil, deniedPeerTime
	}
	return &s, nil
}

func (p *Peers) open(signed *jose.JSONWebSignature) (payload []byte, ok bool) {
	for _, key := range p.keys {
		if payload, err := signed.Verify(key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// of is the tenant that the statement describes.
func (s *statement) of() (*Tenant, error) {
	t := New(s.Tenant)
	class, known := ParseClass(s.Class)
	highest, knownToo := ParseClass(s.Highest)
	named := s.Tenant == "" || IsName(s.Tenant)
	grouped := s.Group == "" || IsName(s.Group)
	if !known || !knownToo || class < highest || !named || !grouped || s.ID == "" || s.Weight < 1 || s.Weight > MaxWeight || validateResidency(s.Residency) != nil {
		return nil, deniedPeer
	}
	t.Weight, t.Class, t.HighestClass, t.CacheGroup, t.Residency = s.Weight, class, highest, s.Group, s.Residency
	return &t, nil
}
