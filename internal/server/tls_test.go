package server

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"weir/api/apitest"

	"weir/configs"
	"weir/telemetry"
)

// Files that change are taken without being asked; bad ones are in the log once, and
// change nothing.
func TestChangedCertificatesAreTaken(t *testing.T) {
	p := apitest.NewPKI(t)
	var errs writes
	log, _, err := telemetry.NewLogger(&errs, false, telemetry.LogConfig{Level: "info", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := newCertificates(configs.Server{TLS: p.Files()}, log)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := background()
	defer end()
	begin(func(ctx context.Context) { own.follow(ctx, time.Millisecond) })
	wait := func(text string, times int) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); strings.Count(errs.String(), text) < times; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the log never said %q %d times:\n%s", text, times, errs.String())
			}
		}
	}
	if err := os.WriteFile(p.Path("server.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait("the last good ones stay in force", 1)
	time.Sleep(20 * time.Millisecond)
	if n := strings.Count(errs.String(), "\n"); n > 3 { // half-written files are read, too
		t.Errorf("one bad file made %d lines:\n%s", n, errs.String())
	}
	p.Issue("server", "second")
	wait("new connections get the new certificate", 1)
}
