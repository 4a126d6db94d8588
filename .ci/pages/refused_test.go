package pages

import (
	"os"
	"path/filepath"
	"testing"
)

// What the server says against a change is seen while the dialog that asked for it is open: toasts of the page lie below it.
func TestConsoleDialogsShowRefusals(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + t.TempDir() + "/weir.db"
	_, admin := serveFrom(t, store, "--config", tenantsFile(t))
	p := open(t, admin, "/console/", "400", "404", "422")
	p.sees("Sequences running")
	p.script(`location.hash = "/tenants/acme"`)
	p.click("New key")
	p.wait(`document.querySelector("dialog[open] input")`)
	p.script(`[...document.querySelectorAll("dialog[open] label")].find((l) => l.innerText.includes("Ends after")).control.focus()`)
	p.types("dialog[open] input:focus", "never")
	p.click("Make it")
	p.wait(`[...document.querySelectorAll("dialog[open] .toast.bad")].some((t) => { const b = t.getBoundingClientRect();
		return b.width > 0 && b.left >= 0 && b.top >= 0 && b.right <= innerWidth && b.bottom <= innerHeight; })`)
	if !evaluate[bool](p, `document.querySelector("dialog[open] .toast.bad").innerText.includes("never")`) {
		t.Error("the refusal does not name what was refused")
	}
}

// tenantsFile is a configuration with the tenant acme.
func tenantsFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yml")
	if err := os.WriteFile(file, []byte("tenants:\n  - name: acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
