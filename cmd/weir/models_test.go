package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/registry"
)

// weir runs a command on a models folder and gives what it prints.
func onFolder(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e strings.Builder
	if got := execute(args, &o, &e); got != want {
		t.Fatalf("weir %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

// defaultFile is the built-in model as a file.
func defaultFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, defaultmodel.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModelsVerbs(t *testing.T) {
	reference.Slow(t)
	t.Setenv("WEIR_MODELS_DIR", filepath.Join(t.TempDir(), "models"))
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	onFolder(t, exitOK, "keys", "create", "acme") // which makes the store that audits
	file := defaultFile(t)
	sampling := filepath.Join(t.TempDir(), "sampling.json")
	if err := os.WriteFile(sampling, []byte(`{"temperature":0.5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := onFolder(t, exitOK, "models", "list"); !strings.Contains(errs, "There are no models") {
		t.Error(errs)
	}
	out, _ := onFolder(t, exitOK, "models", "import", file, "chat:v1", "--sampling", sampling, "--metric", "mmlu=0.4", "--license", "MIT", "--approved-by", "board")
	if !strings.HasPrefix(out, "chat:v1 is sha256:") {
		t.Error(out)
	}
	onFolder(t, exitOK, "models", "import", file, "chat:v2")
	onFolder(t, exitOK, "models", "tag", "chat:v1", "chat:prod")
	out, _ = onFolder(t, exitOK, "models", "show", "chat:prod", "--json")
	var shown struct {
		registry.Version
		Path string `json:"path"`
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatal(err)
	}
	if f := shown.Facts; f.Format != "gguf" || f.Architecture == "" || f.Parameters == "" || f.Quantization == "" ||
		*shown.Record.Sampling.Temperature != 0.5 || shown.Record.Lineage.License != "MIT" || filepath.Base(shown.Path) != "tiny.gguf" {
		t.Errorf("it is %s", out)
	}
	if out, _ = onFolder(t, exitOK, "models", "list"); strings.Count(out, "chat:") != 3 || !strings.Contains(out, "gguf") {
		t.Error(out)
	}
	if out, _ = onFolder(t, exitOK, "models", "verify"); strings.Count(out, "whole") != 2 {
		t.Error(out)
	}
	// The other verbs take the alias and the digest in place of a file.
	for _, name := range []string{"chat:prod", "chat@" + string(shown.Digest)[:20], string(shown.Digest)} {
		if out, _ = onFolder(t, exitOK, "inspect", name); !strings.Contains(out, "1.9 MiB of weights") {
			t.Errorf("inspect %s: %s", name, out)
		}
	}
	if _, errs := onFolder(t, exitFailure, "inspect", "chat:v3"); !strings.Contains(errs, "chat has the tags [prod v1 v2]; weir models import FILE chat:v3") {
		t.Error(errs)
	}
	// A damaged file is found when it is loaded, and named by verify.
	blob := shown.Path
	if target, err := filepath.EvalSymlinks(blob); err == nil {
		blob = target
	}
	data := defaultmodel.GGUF()
	data = append(data[:len(data)-1:len(data)-1], data[len(data)-1]^1)
	if err := os.Chmod(blob, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := onFolder(t, exitFailure, "inspect", "chat:prod"); !strings.Contains(errs, "corrupt blob") {
		t.Error(errs)
	}
	if out, errs := onFolder(t, exitFailure, "models", "verify", "chat:v1"); !strings.Contains(out, "corrupt blob") || !strings.Contains(errs, "1 of 1 versions fail") {
		t.Error(out, errs)
	}
	onFolder(t, exitOK, "models", "import", file, "chat:v1")
	onFolder(t, exitOK, "models", "verify")
	if out, _ = onFolder(t, exitOK, "models", "rm", "chat:v1", "chat:v2", "chat:prod"); !strings.Contains(out, "removed version") {
		t.Error(out)
	}
	if out, _ = onFolder(t, exitOK, "models", "gc"); !strings.Contains(out, "freed") {
		t.Error(out)
	}
	if out, _ = onFolder(t, exitOK, "models", "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Error(out)
	}
	// Both the folder and the store's audit log know who did what.
	if out, _ = onFolder(t, exitOK, "models", "history"); strings.Count(out, "model.tag") != 4 {
		t.Error(out)
	}
	if out, _ = onFolder(t, exitOK, "audit", "list"); strings.Count(out, "  model.tag  ") != 4 || !strings.Contains(out, "chat:prod") {
		t.Error(out)
	}
}

func TestImportOfClassicalModel(t *testing.T) {
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "churn.onnx")
	data, err := os.ReadFile("../../engine/onnx/testdata/columns_mlp.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	onFolder(t, exitOK, "models", "import", file, "churn:7", "--metric", "auc=0.9")
	if out, _ := onFolder(t, exitOK, "inspect", "churn:7"); !strings.Contains(out, "onnx") {
		t.Error(out)
	}
	if _, errs := onFolder(t, exitUsage, "serve", "churn:7"); !strings.Contains(errs, "--classic churn=churn:7") {
		t.Error(errs)
	}
}

func TestWrongModelImports(t *testing.T) {
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	file := defaultFile(t)
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(broken, []byte("GGUF and nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
		exit int
	}{
		{[]string{file, "a b"}, "is no reference", exitUsage}, {[]string{file + ".gone", "chat"}, "no such file", exitFailure},
		{[]string{broken, "chat"}, "broken.gguf", exitFailure}, {[]string{file, "chat", "--metric", "auc"}, "NAME=NUMBER", exitUsage},
		{[]string{file, "chat", "--sampling", broken}, "--sampling", exitFailure}, {[]string{file, "chat", "--approval-note", "x"}, "--approved-by", exitUsage},
		{[]string{t.TempDir(), "chat"}, "is not a file", exitFailure},
	} {
		if _, errs := onFolder(t, c.exit, append([]string{"models", "import"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("%v: %s, want %q", c.args, errs, c.want)
		}
	}
	if out, _ := onFolder(t, exitOK, "models", "list", "--json"); strings.TrimSpace(out) != "[]" {
		t.Error(out)
	}
}

func TestPullAndRun(t *testing.T) {
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	s := servertest.HubOf(t, "tiny-Q8_0.gguf", defaultmodel.GGUF())
	t.Setenv("HF_ENDPOINT", s.URL)
	// Pulling is not allowed, and there is no terminal to ask.
	_, errs := onFolder(t, exitFailure, "inspect", "hf.co/Org/Repo:Q8_0")
	if !strings.Contains(errs, "weir pull hf.co/Org/Repo:Q8_0, or --pull, brings it in from "+strings.TrimPrefix(s.URL, "http://")) {
		t.Error(errs)
	}
	if out, _ := onFolder(t, exitOK, "inspect", "hf.co/Org/Repo:Q8_0", "--pull"); !strings.Contains(out, "Repo") {
		t.Error(out)
	}
	if out, _ := onFolder(t, exitOK, "models", "list"); !strings.Contains(out, "hf.co/Org/Repo:Q8_0") || !strings.Contains(out, "Q8_0") || !strings.Contains(out, "llama") {
		t.Error(out)
	}
	s.Config.Handler = http.NotFoundHandler() // it is here now
	onFolder(t, exitOK, "inspect", "hf.co/Org/Repo:Q8_0")
	if _, errs := onFolder(t, exitFailure, "pull", "hf.co/Org/Repo:Q4_0"); !strings.Contains(errs, "there is no repository Org/Repo") {
		t.Error(errs)
	}
	if _, errs := onFolder(t, exitUsage, "pull"); !strings.Contains(errs, "--models-preload") {
		t.Error(errs)
	}
	if _, errs := onFolder(t, exitFailure, "pull", "a/b/c/d"); !strings.Contains(errs, "not a name that can be pulled") {
		t.Error(errs)
	}
}

func TestPullOfURL(t *testing.T) {
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	s := servertest.HubOf(t, "tiny.gguf", defaultmodel.GGUF())
	onFolder(t, exitOK, "pull", s.URL+"/files/tiny.gguf", "--as", "mine:v1")
	onFolder(t, exitOK, "inspect", "mine:v1")
	onFolder(t, exitOK, "inspect", s.URL+"/files/tiny.gguf", "--pull")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sign in</html>") }))
	defer page.Close()
	if _, errs := onFolder(t, exitFailure, "pull", page.URL+"/m.gguf"); !strings.Contains(errs, "is no GGUF file") {
		t.Error(errs)
	}
}

func TestPushAndPullVerbs(t *testing.T) {
	host := reference.Registry.Get(t)
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	onFolder(t, exitOK, "models", "import", defaultFile(t), "chat:v1")
	there := fmt.Sprintf("%s/verbs%d/chat:v1", host, time.Now().UnixNano())
	out, _ := onFolder(t, exitOK, "models", "push", "chat:v1", there)
	digest := strings.Fields(strings.TrimPrefix(out, there+" is "))[0]
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	t.Setenv("WEIR_MODELS_PRELOAD", there)
	if out, _ := onFolder(t, exitOK, "pull"); !strings.Contains(out, digest[:19]) {
		t.Errorf("%s, want %s", out, digest)
	}
	onFolder(t, exitOK, "inspect", there)
	if _, errs := onFolder(t, exitFailure, "pull", there+"x"); !strings.Contains(errs, "no such model") {
		t.Error(errs)
	}
}

func TestSignAndVerify(t *testing.T) {
	t.Setenv("WEIR_MODELS_DIR", t.TempDir())
	onFolder(t, exitOK, "models", "import", defaultFile(t), "chat:v1")
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	known, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, block *pem.Block) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	privateFile, publicFile := write("k.pem", &pem.Block{Type: "PRIVATE KEY", Bytes: secret}), write("k.pub", &pem.Block{Type: "PUBLIC KEY", Bytes: known})
	if out, _ := onFolder(t, exitFailure, "models", "verify", "chat:v1", "--key", publicFile); !strings.Contains(out, "not signed by this key") {
		t.Error(out)
	}
	onFolder(t, exitOK, "models", "sign", "chat:v1", "--key", privateFile)
	if out, _ := onFolder(t, exitOK, "models", "verify", "chat:v1", "--key", publicFile); !strings.Contains(out, "whole") {
		t.Error(out)
	}
	if _, errs := onFolder(t, exitFailure, "models", "verify", "--key", privateFile); !strings.Contains(errs, "no public key") {
		t.Error(errs)
	}
}
