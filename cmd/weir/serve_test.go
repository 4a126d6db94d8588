package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/server/servertest"
)

// weir serve reads its configuration again at SIGHUP, and ends at SIGTERM without an error.
func TestServeObeysSignals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yml")
	write := func(level string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("log: {level: "+level+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("info")
	p := servertest.StartProcess(t, 512, "--config", file)
	write("debug")
	p.Signal(syscall.SIGHUP)
	p.Find(`configuration reloaded.*"by":"(SIGHUP)".*"log\.level"`, &p.Errs)
	if err := p.End(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
