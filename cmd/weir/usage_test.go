package main

import (
	"strings"
	"testing"

	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// weir usage shows what a tenant used, by key.
func TestUsageVerb(t *testing.T) {
	s, key, _ := servertest.Limited(t, nil)
	second, other := servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "acme", Label: "second"}), servertest.NewKey(t, s.StoreURL, keychain.Request{Tenant: "ops", Label: "app"})
	for _, k := range []string{key, second, other} {
		if status, _, text := s.As(k, "POST", s.API+servertest.ChatPath, servertest.OneToken); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := execute([]string{"usage", "acme", "--by", "key", "--store", s.StoreURL}, &out, &errs); code != exitOK || strings.Count(out.String(), "acme") < 2 ||
		!strings.Contains(out.String(), second[5:15]) || strings.Contains(out.String(), "ops") {
		t.Errorf("%s\n%s", out.String(), errs.String())
	}
}
