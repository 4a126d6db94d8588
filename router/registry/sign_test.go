package registry

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"testing"
)

func TestSignatures(t *testing.T) {
	r := open(t, t.TempDir())
	a, b := imported(t, r, "chat:a", "a"), imported(t, r, "chat:b", "b")
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	read, err := PrivateKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckSignature(a, public); !errors.Is(err, ErrUnsigned) {
		t.Errorf("before it is signed: %v", err)
	}
	for range 2 { // signing again changes nothing
		if _, err := r.Sign(t.Context(), a, read); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := r.Signatures(a); err != nil || len(all) != 1 {
		t.Errorf("%d signatures, %v", len(all), err)
	}
	if err := r.CheckSignature(a, public); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{"another key": r.CheckSignature(a, other), "another version": r.CheckSignature(b, public)} {
		if !errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The signature of one version, put beside another.
	data, err := os.ReadFile(r.path(signaturesFolder, a.Digest.Encoded()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path(signaturesFolder, b.Digest.Encoded()), bytes.ReplaceAll(data, []byte(a.Digest), []byte(b.Digest)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckSignature(b, public); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a signature of another version: %v", err)
	}
	if _, err := r.Remove(t.Context(), "chat:a"); err != nil {
		t.Fatal(err)
	}
	if isThere(r.path(signaturesFolder, a.Digest.Encoded())) {
		t.Error("the signature outlives its version")
	}
	for _, text := range []string{"", "key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := PrivateKey([]byte(text)); err == nil {
			t.Errorf("%q is a private key", text)
		}
		if _, err := PublicKey([]byte(text)); err == nil {
			t.Errorf("%q is a public key", text)
		}
	}
	if KeyID(public) == KeyID(other) {
		t.Error("keys have one name")
	}
}
