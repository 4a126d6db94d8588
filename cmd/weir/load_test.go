package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/apitest"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
)

// damagedModel is the built-in model with a weight that is no number.
func damagedModel(t *testing.T) string {
	t.Helper()
	raw := append([]byte(nil), defaultmodel.GGUF()...)
	path := filepath.Join(t.TempDir(), "damaged.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensor, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("no such tensor")
	}
	for at := tensor.Offset; at < tensor.Offset+tensor.RowBytes(); at += 2 {
		binary.LittleEndian.PutUint16(raw[at:], 0x7fff) // no number as F16, BF16, F32 or a block's scale
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An error about a model names its file, whatever it is served as, and the way out.
func TestLoadErrorsNameTheFile(t *testing.T) {
	damaged := damagedModel(t)
	var out, errs strings.Builder
	if status := execute([]string{"serve", damaged, "--port", "0", "--admin-address", "off"}, &out, &errs); status == exitOK {
		t.Fatal("a damaged model ran")
	}
	for _, want := range []string{damaged, "blk.0.ffn_down", "not finite"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("the error lacks %q: %s", want, errs.String())
		}
	}
	errs.Reset()
	strange := strangeModel(t)
	if status := execute([]string{"serve", strange, "--served-model-name", "pretty"}, &out, &errs); status == exitOK ||
		!strings.Contains(errs.String(), strange) {
		t.Errorf("exit status %d: %s", status, errs.String())
	}
}

func TestServeNamesTheFilesOfTLSThatItCannotUse(t *testing.T) {
	p := apitest.NewPKI(t)
	var out, errs strings.Builder
	code := execute([]string{"serve", "--port", "0", "--admin-address", "off", "--tls-certificate", p.Path("absent.crt"), "--tls-key", p.Path("server.key")}, &out, &errs)
	if code == exitOK || !strings.Contains(errs.String(), "absent.crt") || !strings.Contains(errs.String(), "--tls-certificate") {
		t.Errorf("%d: %s", code, errs.String())
	}
}
