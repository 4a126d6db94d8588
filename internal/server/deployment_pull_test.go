package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/store/storetest"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/defaultmodel"
	"weir/internal/reference"
	"weir/internal/server/folder"
	"weir/internal/server/local"
	"weir/internal/server/servertest"
	"weir/router/deployment"
	"weir/router/registry"
)

// The hub of these tests is one that Hugging Face's own client reads, which finds and downloads the file.
func TestTheFakeHubSpeaksHuggingFacesAPI(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	python := reference.HubPython(t)
	content := defaultmodel.GGUF()
	s := servertest.HubOf(t, "tiny-Q8_0.gguf", content)
	cmd := exec.CommandContext(t.Context(), python, "-c", `
import hashlib, huggingface_hub as h
api = h.HfApi()
info = api.model_info("Org/Repo")
print(info.sha, api.list_repo_files("Org/Repo"), [f.lfs.sha256 for f in api.list_repo_tree("Org/Repo", recursive=True)])
print(hashlib.sha256(open(h.hf_hub_download("Org/Repo", "tiny-Q8_0.gguf"), "rb").read()).hexdigest())
print(h.__version__)`)
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+s.URL, "HF_HOME="+t.TempDir(), "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_XET=1")
	out, err := cmd.CombinedOutput()
	sum := sha256.Sum256(content)
	if digest := hex.EncodeToString(sum[:]); err != nil || strings.Count(string(out), digest) != 2 || !strings.Contains(string(out), "tiny-Q8_0.gguf") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// pushed puts the built-in model into an OCI registry, and gives the digest of the version.
func pushed(t *testing.T, there string) (digest string) {
	t.Helper()
	c := configs.Default()
	c.Registry.Dir = t.TempDir()
	models, err := folder.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	file := servertest.EmbeddedFile(t)
	f, err := local.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := models.Import(t.Context(), registry.Import{
		Name: "chat:v1", Files: []registry.Source{{Role: registry.Weights, Path: file}}, Facts: folder.FactsOf(f),
	}); err != nil {
		t.Fatal(err)
	}
	v, err := models.Push(t.Context(), "chat:v1", there, folder.RemoteOf(c, true), func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return string(v.Digest)
}

// registryOf is a proxy before a real OCI registry, which holds the version under the name, and holds blobs back at a gate.
func registryOf(t *testing.T, g *servertest.Gate) (name, digest string) {
	t.Helper()
	host := reference.Registry.Get(t)
	repository := fmt.Sprintf("deploy%d/chat", time.Now().UnixNano())
	digest = pushed(t, host+"/"+repository+":v1")
	target, err := url.Parse("http://" + host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	size := len(defaultmodel.GGUF())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			w = g.Half(w, r, size)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/" + repository + ":v1", digest
}

// A version comes to three servers from an OCI registry, and from Hugging Face's hub, by one call. Two of them are killed amid their
// pulls; after their start all have the same version, whose digest they have compared, and what was pulled before is not pulled again.
func TestDeploymentsOfRegistriesAndHubs(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	t.Run("OCI registry", func(t *testing.T) {
		g := servertest.NewGate(t)
		name, digest := registryOf(t, g)
		killedAmidPulls(t, g, name, digest)
	})
	t.Run("Hugging Face", func(t *testing.T) {
		g := servertest.NewGate(t)
		hub := httptest.NewServer(servertest.FakeHub(g, "Org/Repo", "tiny-Q8_0.gguf", defaultmodel.GGUF()))
		t.Cleanup(func() { g.Open(); hub.Close() })
		killedAmidPulls(t, g, "hf.co/Org/Repo:Q8_0", "", "HF_ENDPOINT="+hub.URL)
	})
}

func killedAmidPulls(t *testing.T, g *servertest.Gate, version, digest string, environment ...string) {
	t.Helper()
	store := storetest.Postgres(t)
	t.Parallel()
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *servertest.Process {
		return servertest.StartProcessWith(t, environment, 1024, servertest.Peppered, "--store", store, "--models-dir", folders[i])
	}
	servers := []*servertest.Process{start(0), start(1), start(2)}
	servers[0].ApplyDeployment(fmt.Sprintf(`{"modelId": "chat", "version": %q, "resources": {"kvCacheBytes": "4MiB"}}`, version))
	servers[1].AwaitDeployment("chat", func(v *admin.DeploymentView) bool {
		pulling := 0
		for _, o := range v.Instances {
			if o.State == deployment.Pulling && o.DoneBytes > 0 {
				pulling++
			}
		}
		return pulling == 3
	})
	size := int64(len(defaultmodel.GGUF()))
	for end := time.Now().Add(servertest.Patience); min(noted(t, folders[0]), noted(t, folders[1])) < size*9/20; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d and %d of %d bytes are noted as there", noted(t, folders[0]), noted(t, folders[1]), size)
		}
	}
	servers[0].Kill()
	servers[1].Kill()
	g.Open()
	servers[0], servers[1] = start(0), start(1)
	v := servers[2].AwaitDeployment("chat", readyOn(servers...))
	if digest != "" && v.Digest != digest || !strings.HasPrefix(v.Digest, "sha256:") {
		t.Errorf("the digest is %s, want %s", v.Digest, digest)
	}
	for i, p := range servers {
		if status, _, label := p.Said("chat"); status != http.StatusOK || label != v.Label {
			t.Errorf("server %d: %d %q, want %q", i, status, label, v.Label)
		}
		if err := wholeBlobs(folders[i]); err != nil {
			t.Errorf("server %d: %v", i, err)
		}
	}
	sent := g.Sent.Load()
	t.Logf("%s of %.1f MiB to three servers, two of them killed: %.1f MiB were sent", v.Digest, float64(size)/(1<<20), float64(sent)/(1<<20))
	if sent > 3*size+size/2 { // from the beginning it would be four times
		t.Errorf("%d bytes were sent for three times %d", sent, size)
	}
}

// noted is how many bytes a models folder has of downloads that are under way, as their notes say.
func noted(t *testing.T, folder string) (bytes int64) {
	t.Helper()
	_ = filepath.WalkDir(folder, func(path string, _ os.DirEntry, _ error) error { // files come and go
		if !strings.HasSuffix(path, ".state") {
			return nil
		}
		var state struct{ Have []int64 }
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &state) == nil {
			for _, n := range state.Have {
				bytes += n
			}
		}
		return nil
	})
	return bytes
}

// wholeBlobs compares the files of a models folder with their digests.
func wholeBlobs(folder string) error {
	blobs, err := filepath.Glob(filepath.Join(folder, "blobs", "sha256", "*"))
	if err != nil || len(blobs) == 0 {
		return fmt.Errorf("%s has no blobs: %w", folder, err)
	}
	for _, path := range blobs {
		if len(filepath.Base(path)) != hex.EncodedLen(sha256.Size) {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		_ = f.Close() // only read
		if err != nil {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != filepath.Base(path) {
			return fmt.Errorf("%s has another content than its name says", path)
		}
	}
	return nil
}

// A deployment that is deleted amid its pull leaves nothing that answers, and may be made again.
func TestADeploymentIsDeletedAmidItsPull(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	g := servertest.NewGate(t)
	hub := httptest.NewServer(servertest.FakeHub(g, "Org/Repo", "tiny-Q8_0.gguf", defaultmodel.GGUF()))
	t.Cleanup(func() { g.Open(); hub.Close() })
	p := servertest.StartProcessWith(t, []string{"HF_ENDPOINT=" + hub.URL}, 1024, servertest.Peppered, "--store", "sqlite:"+t.TempDir()+"/weir.db", "--models-dir", t.TempDir())
	const body = `{"modelId": "chat", "version": "hf.co/Org/Repo:Q8_0", "resources": {"kvCacheBytes": "4MiB"}, "replicas": 1}`
	p.ApplyDeployment(body)
	p.AwaitDeployment("chat", func(v *admin.DeploymentView) bool { return len(v.Instances) == 1 && v.Instances[0].DoneBytes > 0 })
	if status, text := p.ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if status, text := p.ChangeDeployment(http.MethodGet, "/chat", ""); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
	again := p.ApplyDeployment(body)
	if again.Generation <= 1 { // above those of the one before
		t.Errorf("%+v", again)
	}
	if status, _ := p.ChangeDeployment(http.MethodDelete, "/chat", ""); status != http.StatusOK {
		t.Errorf("again: %d", status)
	}
	g.Open()
	p.ApplyDeployment(body)
	p.AwaitDeployment("chat", readyOn(p))
	if status, _, _ := p.Said("chat"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}
