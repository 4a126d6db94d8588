package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// Some servers repeat the header of a request in their errors. What this server has sent them as its credential is known here, and goes
// neither to callers nor into logs, spans and records of attempts.

const (
	minSecretBytes = 8     // of a credential that is looked for: a shorter one stands in texts by chance
	withheldText   = "***" // in its place
)

// secrets are the credentials that the server gets.
func (w *endpoint) secrets() []string {
	if w.provider != nil {
		return w.provider.Secrets(w.key)
	}
	return []string{w.key}
}

// formsOf are the ways in which a credential stands in a text: as it is, in JSON, and in a URL.
func formsOf(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		return []string{secret} // a string always has a JSON form
	}
	inner := string(quoted[1 : len(quoted)-1])
	return []string{secret, inner, strings.ReplaceAll(inner, "/", `\/`), url.QueryEscape(secret)}
}

// hide is what a server says in an error, without this server's credential.
func (w *endpoint) hide(said []byte) []byte {
	for _, s := range w.secrets() {
		if len(s) < minSecretBytes {
			continue
		}
		for _, form := range formsOf(s) {
			if bytes.Contains(said, []byte(form)) {
				said = bytes.ReplaceAll(said, []byte(form), []byte(withheldText))
			}
		}
	}
	return said
}

// hideText is hide for an error's text, whose end may be cut within the credential.
func (w *endpoint) hideText(said string) string {
	said = string(w.hide([]byte(said)))
	body := strings.TrimSuffix(said, `"`)
	for _, s := range w.secrets() {
		for n := len(s) - 1; n >= minSecretBytes; n-- {
			if rest, ok := strings.CutSuffix(body, s[:n]); ok {
				return rest + withheldText + said[len(body):]
			}
		}
	}
	return said
}

// redactedError is an error with a text that has no credential in it.
type redactedError struct {
	error
	text string
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.error }

// withhold takes this server's credential out of an error of the server, and of what is wrapped in it.
func (w *endpoint) withhold(err error) error {
	if err == nil {
		return nil
	}
	if said, ok := errors.AsType[*eventError](err); ok {
		said.text = string(w.hide([]byte(said.text)))
	}
	if e, ok := errors.AsType[*faultError](err); ok {
		e.err = w.safe(e.err)
	}
	return w.safe(err)
}

func (w *endpoint) safe(err error) error {
	text := err.Error()
	if safe := w.hideText(text); safe != text {
		return &redactedError{err, safe}
	}
	return err
}
