package server_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/servertest"
)

// underKey posts a body with an idempotency key.
func underKey(s *servertest.Server, path, key, body string) (res *http.Response, text string) {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	if res, err = http.DefaultClient.Do(r); err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	bytes, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return res, string(bytes)
}

// A prediction under an idempotency key is computed once, and answered again with the same bytes.
func TestPredictionsAreExecutedOnce(t *testing.T) {
	s := servertest.Start(t, nil)
	for path, body := range map[string]string{
		"/v1/models/weir-iris:predict": `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`,
		"/v2/models/weir-iris/infer": `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}],
			"outputs": [{"name": "output", "parameters": {"binary_data": true}}]}`,
	} {
		first, text := underKey(s, path, path, body)
		again, replayed := underKey(s, path, path, body)
		if first.StatusCode != 200 || first.Header.Get("X-Weir-Replayed") != "" {
			t.Fatalf("%s: %d %s", path, first.StatusCode, text)
		}
		if again.StatusCode != 200 || again.Header.Get("X-Weir-Replayed") != "true" || replayed != text {
			t.Errorf("%s again: %d %q, first %q", path, again.StatusCode, replayed, text)
		}
		for _, name := range []string{"Content-Type", "Inference-Header-Content-Length", "X-Weir-Version"} {
			if first.Header.Get(name) != again.Header.Get(name) {
				t.Errorf("%s: %s is %q, and was %q", path, name, again.Header.Get(name), first.Header.Get(name))
			}
		}
		other, text := underKey(s, path, path, strings.Replace(body, "5.1", "6.1", 1))
		if other.StatusCode != http.StatusUnprocessableEntity || !strings.HasPrefix(text, `{"error":"`) {
			t.Errorf("%s with another body: %d %s", path, other.StatusCode, text)
		}
	}
	wrong, _ := underKey(s, "/v1/models/weir-iris:predict", "free", `{"instances": [[1, 2]]}`)
	right, text := underKey(s, "/v1/models/weir-iris:predict", "free", `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`)
	if wrong.StatusCode != 400 || right.StatusCode != 200 || right.Header.Get("X-Weir-Replayed") != "" {
		t.Errorf("a refusal takes its key: %d, then %d %s", wrong.StatusCode, right.StatusCode, text)
	}
	_, scrape := s.Get(s.Admin + "/metrics")
	if want := `weir_predict_requests_total{model_name="weir-iris",outcome="complete",version="1"} 3`; !strings.Contains(scrape, want) {
		t.Errorf("the scrape lacks %s", want)
	}
}

// A batch under an idempotency key is made once.
func TestBatchesAreMadeOnce(t *testing.T) {
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	})
	status, file := s.Upload("", chatLines(1, 1), "purpose", "batch")
	if status != 200 {
		t.Fatalf("%d %v", status, file)
	}
	order := fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file["id"])
	_, first := underKey(s, "/v1/batches", "order-1", order)
	res, again := underKey(s, "/v1/batches", "order-1", order)
	if res.StatusCode != 200 || res.Header.Get("X-Weir-Replayed") != "true" || first != again || !strings.Contains(first, `"object":"batch"`) {
		t.Errorf("%d %s\nfirst %s", res.StatusCode, again, first)
	}
	if _, list := s.Get(s.API + "/v1/batches"); strings.Count(list, `"object":"batch"`) != 1 {
		t.Errorf("the batches are %s", list)
	}
}

// An answer that is stored for a key of a tenant is not for another key of it that may not use the model.
func TestReplaysAreForWhoMayUseTheModel(t *testing.T) {
	url := "sqlite:" + t.TempDir() + "/weir.db"
	chats := servertest.NewKey(t, url, keychain.Request{Tenant: "acme", Label: "chats", Terms: []byte(`{"models":["weir-default"]}`)})
	flowers := servertest.NewKey(t, url, keychain.Request{Tenant: "acme", Label: "flowers", Terms: []byte(`{"models":["weir-iris"]}`)})
	all := servertest.NewKey(t, url, keychain.Request{Tenant: "acme", Label: "all"})
	s := servertest.Start(t, func(c *configs.Config) { c.Store.URL = url })
	under := func(key, path, body string) (int, bool, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {fmt.Sprintf("%d%s", len(body), strings.ReplaceAll(path, "/", "-"))}, "Authorization": {"Bearer " + key}}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("X-Weir-Replayed") == "true", string(text)
	}
	const iris = `{"instances": [[5.1, 3.5, 1.4, 0.2]]}`
	for _, c := range []struct{ path, body, may, mayNot string }{
		{servertest.ChatPath, servertest.OneToken, chats, flowers},
		{servertest.ChatPath, strings.Replace(servertest.OneToken, "{", `{"user":"`+strings.Repeat("x", 20<<10)+`",`, 1), chats, flowers},
		{"/v1/models/weir-iris:predict", iris, flowers, chats},
		{"/v2/models/weir-iris/infer", `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [5.1, 3.5, 1.4, 0.2]}]}`, flowers, chats},
	} {
		status, replayed, first := under(c.may, c.path, c.body)
		if status != 200 || replayed {
			t.Fatalf("%s: %d %s", c.path, status, first)
		}
		for _, key := range []string{c.may, all} {
			if status, replayed, again := under(key, c.path, c.body); status != 200 || !replayed || again != first {
				t.Errorf("%s again: %d, replayed %v: %s", c.path, status, replayed, again)
			}
		}
		if status, replayed, text := under(c.mayNot, c.path, c.body); status != http.StatusNotFound || replayed {
			t.Errorf("%s with a key that may not use the model: %d, replayed %v: %s", c.path, status, replayed, text)
		}
	}
}
