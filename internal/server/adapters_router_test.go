package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/internal/store/storetest"
)

// A router without a list of replicas sends requests for an adapter to those servers on the store that have it, also after it was loaded into
// another one and taken away from the first.
func TestRoutersFindAdapters(t *testing.T) {
	reference.Slow(t)
	t.Parallel() // most of it is waiting
	url, base := storetest.Postgres(t), servertest.EmbeddedFile(t)
	file := servertest.AdapterFile(t, base, "sql", 4, 0.2)
	start := func(flags ...string) *servertest.Process {
		return servertest.StartProcess(t, 1024, append([]string{servertest.Peppered, "--store", url, "--model", base, "--served-model-name", "chat"}, flags...)...)
	}
	with, without := start("--lora-modules", "sql="+file), start()
	config := filepath.Join(t.TempDir(), "weir.yml")
	const routed = "models:\n  - {name: chat, replicas: [{discover: store}]}\n  - {name: sql, replicas: [{discover: store}]}\n"
	if err := os.WriteFile(config, []byte(routed), 0o600); err != nil {
		t.Fatal(err)
	}
	router := servertest.StartProcess(t, 1024, servertest.Peppered, "--config", config, "--store", url)
	say := func(p *servertest.Process, model string) string {
		var answer struct{ Choices []struct{ Text string } }
		status, _, body := p.As("", http.MethodPost, p.API+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"The river was","max_tokens":12,"temperature":0}`, model))
		if status != http.StatusOK || json.Unmarshal([]byte(body), &answer) != nil {
			return fmt.Sprint(status, " ", body)
		}
		return answer.Choices[0].Text
	}
	untilReplicasOf(router.Server, "sql", []string{with.API})
	untilReplicasOf(router.Server, "chat", []string{with.API, without.API})
	want, plain := say(with, "sql"), say(without, "chat")
	if want == plain {
		t.Fatalf("the adapter says %q, as the model does", plain)
	}
	for range 8 {
		if got := say(router, "sql"); got != want {
			t.Errorf("through the router the adapter says %q, not %q", got, want)
		}
		if got := say(router, "chat"); got != plain {
			t.Errorf("through the router the model says %q, not %q", got, plain)
		}
	}
	load := func(p *servertest.Process, action, body string) {
		if status := p.Control("", http.MethodPost, "/admin/models/"+action, body, nil); status != http.StatusOK {
			t.Fatalf("%s: %d", action, status)
		}
	}
	load(without, "load", fmt.Sprintf(`{"name":"sql","path":%q}`, file))
	untilReplicasOf(router.Server, "sql", []string{with.API, without.API})
	load(with, "unload", `{"name":"sql"}`)
	untilReplicasOf(router.Server, "sql", []string{without.API})
	if got := say(router, "sql"); got != want {
		t.Errorf("from the other server the adapter says %q, not %q", got, want)
	}
}
