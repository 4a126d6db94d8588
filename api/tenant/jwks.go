package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	keysTimeout   = 5 * time.Second  // of one fetch, and of a request that waits for one
	keysEvery     = 10 * time.Minute // between fetches that succeed
	keysRetry     = 5 * time.Second  // after the first that fails, then twice as long each time
	keysMinPause  = 10 * time.Second // between fetches that tokens with unknown keys cause
	maxKeysBytes  = 1 << 20
	maxIssuerKeys = 64
)

// issuerKeys are the public keys of an issuer. They are fetched in the background,
// and once more, at most every keysMinPause, when a token is signed with a key that
// is not known: the flood of such tokens is not passed on to the issuer.
type issuerKeys struct {
	config  Issuer
	algs    []jose.SignatureAlgorithm
	fetched func(error)
	client  *http.Client

	keys   atomic.Pointer[[]jose.JSONWebKey] // nil: never fetched
	wanted chan struct{}                     // capacity 1: a token has an unknown key

	mu      sync.Mutex
	fetches chan struct{} // closed at the end of the next fetch
	last    time.Time     // when the last fetch began
	ended   bool          // it is over
}

func newIssuerKeys(c Issuer, fetched func(error)) *issuerKeys {
	k := &issuerKeys{config: c, fetched: fetched, wanted: make(chan struct{}, 1), fetches: make(chan struct{})}
	for _, a := range c.Algorithms {
		k.algs = append(k.algs, jose.SignatureAlgorithm(a))
	}
	k.client = &http.Client{Timeout: keysTimeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return errors.New("more than 3 redirects")
		}
		return checkURL("redirect", r.URL.String())
	}}
	return k
}

// run fetches until ctx ends.
func (k *issuerKeys) run(ctx context.Context) {
	pause := keysRetry
	for ctx.Err() == nil {
		k.mu.Lock()
		k.last, k.ended = time.Now(), false
		k.mu.Unlock()
		err := k.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		k.fetched(err)
		k.endFetch()
		next := keysEvery
		if err != nil {
			next, pause = pause, min(2*pause, keysEvery)
		} else {
			pause = keysRetry
		}
		k.rest(ctx, next)
	}
}

func (k *issuerKeys) endFetch() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.fetches)
	k.ended = true
	k.fetches = make(chan struct{})
}

// rest waits for the next fetch: after a while, or sooner when a token wants it.
func (k *issuerKeys) rest(ctx context.Context, next time.Duration) {
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-k.wanted:
		early := time.NewTimer(keysMinPause - time.Since(k.last))
		defer early.Stop()
		select {
		case <-ctx.Done():
		case <-early.C:
		}
	}
}

// VerifySignature implements oidc.KeySet.
func (k *issuerKeys) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(raw, k.algs)
	if err != nil {
		return nil, fmt.Errorf("parse token: %w", err)
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("the token has not one signature")
	}
	id := signed.Signatures[0].Header.KeyID
	candidates := k.named(id)
	if len(candidates) == 0 {
		k.await(ctx)
		candidates = k.named(id)
	}
	for i := range candidates {
		if payload, err := signed.Verify(&candidates[i]); err == nil {
			return payload, nil
		}
	}
	return nil, fmt.Errorf("none of the issuer's keys called %.80q made the signature", id)
}

// named are the keys of an id; for "" all.
func (k *issuerKeys) named(id string) []jose.JSONWebKey {
	keys := k.keys.Load()
	if keys == nil {
		return nil
	}
	if id == "" {
		return *keys
	}
	var found []jose.JSONWebKey
	for _, key := range *keys {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// await asks for a fetch and waits for it, unless one has ended just now.
func (k *issuerKeys) await(ctx context.Context) {
	k.mu.Lock()
	end, soon := k.fetches, k.ended && time.Since(k.last) < keysMinPause
	k.mu.Unlock()
	if soon {
		return
	}
	select {
	case k.wanted <- struct{}{}:
	default:
	}
	select {
	case <-end:
	case <-ctx.Done():
	}
}

// fetch replaces the keys.
func (k *issuerKeys) fetch(ctx context.Context) error {
	at := k.config.KeysURL
	if at == "" {
		var err error
		if at, err = k.discover(ctx); err != nil {
			return err
		}
	}
	var set jose.JSONWebKeySet
	if err := k.get(ctx, at, &set); err != nil {
		return err
	}
	keys := slices.DeleteFunc(set.Keys, func(key jose.JSONWebKey) bool {
		return !key.Valid() || !key.IsPublic() || key.Use == "enc"
	})
	if len(keys) == 0 || len(keys) > maxIssuerKeys {
		return fmt.Errorf("%s has %d public keys for signatures; there must be 1 to %d", at, len(keys), maxIssuerKeys)
	}
	k.keys.Store(&keys)
	return nil
}

// discover asks the issuer where its keys are.
func (k *issuerKeys) discover(ctx context.Context) (string, error) {
	at := strings.TrimSuffix(k.config.URL, "/") + "/.well-known/openid-configuration"
	var document struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := k.get(ctx, at, &document); err != nil {
		return "", err
	}
	if document.Issuer != k.config.URL {
		return "", fmt.Errorf("%s calls the issuer %.200q; url must be exactly that", at, document.Issuer)
	}
	return document.KeysURL, checkURL("jwks_uri of "+at, document.KeysURL)
}

// get reads a JSON document.
func (k *issuerKeys) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: status %s", url, answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxKeysBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("GET %s: %w", url, err)
	case len(data) > maxKeysBytes:
		return fmt.Errorf("GET %s: more than %d bytes", url, maxKeysBytes)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}
