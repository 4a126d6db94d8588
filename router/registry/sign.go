package registry

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
)

const signaturesFolder = "signatures"

// ErrUnsigned says that a version has no signature by a key, or a wrong one.
var ErrUnsigned = errors.New("not signed by this key")

// signatureDomain begins what is signed, so that the signature of a version is never one of anything else.
const signatureDomain = "weir model version 1\n"

// maxSignatures bounds those of a version.
const maxSignatures = 64

// Signature says that the holder of a key vouches for a version: for the bytes of all its files and its record, which the
// digest names.
type Signature struct {
	Digest digest.Digest `json:"digest"`
	Key    string        `json:"key"` // KeyID of the public key
	Bytes  string        `json:"ed25519"`
	Time   time.Time     `json:"time"` // as the signer's clock says; not part of what is signed
}

// KeyID names a public key: the beginning of the SHA-256 of its bytes.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return fmt.Sprintf("ed25519:%x", sum[:8])
}

// PrivateKey reads an Ed25519 key as OpenSSL writes it: PEM with PKCS #8.
func PrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("it is no private key in PEM; openssl genpkey -algorithm ed25519 makes one")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its PKCS #8 cannot be read") // the cause may hold bytes of the key
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("it is not an Ed25519 key; openssl genpkey -algorithm ed25519 makes one")
	}
	return private, nil
}

// PublicKey reads the public part: PEM with a SubjectPublicKeyInfo.
func PublicKey(data []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("it is no public key in PEM; openssl pkey -in PRIVATE.pem -pubout makes it of the private one")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	public, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("it is not an Ed25519 key")
	}
	return public, nil
}

func signed(d digest.Digest) []byte { return []byte(signatureDomain + string(d) + "\n") }

// Signing keeps who vouches for a version.
type Signing struct{ *layout }

// Sign vouches for a version with a key and keeps the signature beside the version. Check the version first: the digest
// is signed, whatever the files hold.
func (sg *Signing) Sign(ctx context.Context, v Version, key ed25519.PrivateKey) (Signature, error) {
	unlock, err := sg.lock(ctx, true)
	if err != nil {
		return Signature{}, err
	}
	defer unlock()
	bytes, err := key.Sign(nil, signed(v.Digest), crypto.Hash(0))
	if err != nil {
		return Signature{}, err
	}
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Signature{}, errors.New("the key has no public part")
	}
	s := Signature{Digest: v.Digest, Key: KeyID(public), Bytes: base64.StdEncoding.EncodeToString(bytes), Time: sg.now().UTC().Truncate(time.Second)}
	all, err := sg.Signatures(v)
	if err != nil {
		return s, err
	}
	kept := []Signature{s}
	for _, old := range all {
		if old.Key != s.Key {
			kept = append(kept, old)
		}
	}
	if len(kept) > maxSignatures {
		return s, fmt.Errorf("%s has %d signatures already, as many as it may", v.Digest, maxSignatures)
	}
	data, err := json.MarshalIndent(kept, "", "  ")
	if err == nil {
		err = os.MkdirAll(sg.path(signaturesFolder), 0o755)
	}
	if err == nil {
		err = writeWhole(sg.path(signaturesFolder, v.Digest.Encoded()), data)
	}
	return s, err
}

// Signatures are those of a version, not checked.
func (sg *Signing) Signatures(v Version) ([]Signature, error) {
	data, err := readSmall(sg.path(signaturesFolder, v.Digest.Encoded()), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Signature
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("the signatures of %s: %w", v.Digest, err)
	}
	return all, nil
}

// CheckSignature reports whether a key's holder vouches for a version: ErrUnsigned where not. It says nothing about the
// version's files, which Verify compares with the digest.
func (sg *Signing) CheckSignature(v Version, key ed25519.PublicKey) error {
	all, err := sg.Signatures(v)
	if err != nil {
		return err
	}
	id := KeyID(key)
	for _, s := range all {
		if s.Key != id {
			continue
		}
		bytes, err := base64.StdEncoding.DecodeString(s.Bytes)
		if err == nil && ed25519.Verify(key, signed(v.Digest), bytes) {
			return nil
		}
		return fmt.Errorf("%w: the signature of %s by %s is wrong", ErrUnsigned, v.Digest, id)
	}
	return fmt.Errorf("%w: %s has %d signatures, and none by %s", ErrUnsigned, v.Digest, len(all), id)
}
