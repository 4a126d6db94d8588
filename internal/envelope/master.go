package envelope

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/crypto/chacha20poly1305"
)

// Master encrypts data keys.
type Master struct {
	id     string // "secret-…" or "command-…": which one a data key is encrypted with
	wrap   func(ctx context.Context, plain []byte) ([]byte, error)
	unwrap func(ctx context.Context, wrapped []byte) ([]byte, error)
}

// ID names the master key; it tells nothing about a secret.
func (m *Master) ID() string { return m.id }

// MinSecretBytes is the least length of a secret.
const MinSecretBytes = 32

// NewSecret is a master key made of a secret of at least MinSecretBytes.
func NewSecret(secret []byte) (*Master, error) {
	if len(secret) < MinSecretBytes {
		return nil, fmt.Errorf("the master key has %d bytes; it needs at least %d, such as openssl rand -hex 32 gives", len(secret), MinSecretBytes)
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "weir master key", chacha20poly1305.KeySize+6)
	if err != nil {
		return nil, err
	}
	key, err := newDataKey("master", derived[:chacha20poly1305.KeySize])
	if err != nil {
		return nil, err
	}
	return &Master{
		id: "secret-" + hex.EncodeToString(derived[chacha20poly1305.KeySize:]),
		wrap: func(_ context.Context, plain []byte) ([]byte, error) {
			return key.Seal(Label{Kind: "data key"}, plain), nil
		},
		unwrap: func(_ context.Context, wrapped []byte) ([]byte, error) {
			return key.Open(Label{Kind: "data key"}, wrapped)
		},
	}, nil
}

const (
	commandTimeout  = 10 * time.Second
	maxCommandBytes = 64 << 10 // of what a command prints
)

// NewCommand is a master key that a program keeps, such as a client of a key management service: it is called with
// wrap or unwrap behind its arguments, reads bytes from its standard input and writes bytes to its standard output.
// No shell reads the command.
func NewCommand(command []string) (*Master, error) {
	if len(command) == 0 {
		return nil, errors.New("the command of the master key is empty; name a program")
	}
	run := func(ctx context.Context, verb string, in []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], append(append([]string(nil), command[1:]...), verb)...) //nolint:gosec // the operator's own command
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), &out, &errs, time.Second
		err := cmd.Run()
		switch {
		case err != nil:
			return nil, fmt.Errorf("the command of the master key, %s %s: %w: %.200s", command[0], verb, err, strings.TrimSpace(errs.String()))
		case out.Len() == 0 || out.Len() > maxCommandBytes:
			return nil, fmt.Errorf("the command of the master key, %s %s, wrote %d bytes; 1 to %d are taken", command[0], verb, out.Len(), maxCommandBytes)
		}
		return out.Bytes(), nil
	}
	sum := sha256.Sum256([]byte(strings.Join(command, "\x00")))
	return &Master{
		id:     "command-" + hex.EncodeToString(sum[:6]),
		wrap:   func(ctx context.Context, plain []byte) ([]byte, error) { return run(ctx, "wrap", plain) },
		unwrap: func(ctx context.Context, wrapped []byte) ([]byte, error) { return run(ctx, "unwrap", wrapped) },
	}, nil
}

// Masters are master keys: the first encrypts, all decrypt.
type Masters []*Master

// Wrapped is a data key as it is kept: encrypted.
type Wrapped struct {
	Tenant, ID string
	Master     string // id of the master key
	Bytes      []byte
}

// New makes a data key of a tenant.
func (m Masters) New(ctx context.Context, tenant string) (*DataKey, Wrapped, error) {
	secret := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(secret) // it never fails
	w := Wrapped{Tenant: tenant, ID: newID()}
	key, err := newDataKey(w.ID, secret)
	if err == nil {
		err = m.encrypt(ctx, &w, secret)
	}
	return key, w, err
}

// encrypt wraps a data key's secret with the first master key, together with a hash of whose key it is, so that keys
// cannot be exchanged.
func (m Masters) encrypt(ctx context.Context, w *Wrapped, secret []byte) (err error) {
	w.Master = m[0].id
	w.Bytes, err = m[0].wrap(ctx, append(append([]byte(nil), secret...), w.owner()...))
	return err
}

func (w *Wrapped) owner() []byte {
	sum := sha256.Sum256(Label{w.Tenant, "data key", w.ID}.bytes())
	return sum[:]
}

// Open decrypts a data key.
func (m Masters) Open(ctx context.Context, w Wrapped) (*DataKey, error) {
	secret, err := m.decrypt(ctx, &w)
	if err != nil {
		return nil, err
	}
	return newDataKey(w.ID, secret)
}

// Rewrap encrypts a data key with the first master key.
func (m Masters) Rewrap(ctx context.Context, w Wrapped) (Wrapped, error) {
	secret, err := m.decrypt(ctx, &w)
	if err == nil {
		err = m.encrypt(ctx, &w, secret)
	}
	return w, err
}

// decrypt asks the master key that a data key names, or else every one that may be it: a command is the same under
// another name.
func (m Masters) decrypt(ctx context.Context, w *Wrapped) ([]byte, error) {
	var errs []error
	for _, master := range m {
		if master.id != w.Master && (strings.HasPrefix(master.id, "secret-") || m.has(w.Master)) {
			continue
		}
		plain, err := master.unwrap(ctx, w.Bytes)
		switch {
		case err != nil:
			errs = append(errs, err)
		case len(plain) != chacha20poly1305.KeySize+sha256.Size || subtle.ConstantTimeCompare(plain[chacha20poly1305.KeySize:], w.owner()) != 1:
			errs = append(errs, ErrSealed)
		default:
			return plain[:chacha20poly1305.KeySize], nil
		}
	}
	if errs == nil {
		var have []string
		for _, master := range m {
			have = append(have, master.id)
		}
		return nil, fmt.Errorf("the data key %s is encrypted with the master key %s, and this weir has %s", w.ID, w.Master, strings.Join(have, ", "))
	}
	return nil, fmt.Errorf("the data key %s cannot be decrypted: %w", w.ID, errors.Join(errs...))
}

func (m Masters) has(id string) bool {
	for _, master := range m {
		if master.id == id {
			return true
		}
	}
	return false
}
