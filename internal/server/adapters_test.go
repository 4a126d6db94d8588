package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// listedModel is an entry of GET /v1/models.
type listedModel struct {
	ID     string  `json:"id"`
	Root   string  `json:"root"`
	Parent *string `json:"parent"`
}

func (m listedModel) String() string {
	if m.Parent == nil {
		return m.ID + " " + m.Root
	}
	return m.ID + " " + m.Root + " of " + *m.Parent
}

// Adapters are given by the configuration, loaded and unloaded in vLLM's form and at the admin listener, and asked by their names; what
// does not fit is refused and changes nothing.
func TestAdaptersAreServed(t *testing.T) {
	base := servertest.EmbeddedFile(t)
	first, second := servertest.AdapterFile(t, base, "first", 4, 0.2), servertest.AdapterFile(t, base, "second", 8, 0.4)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames = base, []string{"chat"}
		c.Model.Adapters, c.Model.EnableLora, c.Model.MaxLoraRank, c.Model.MaxLoras = []string{"zeta=" + first}, true, 16, 3
		c.Store.URL = "sqlite:" + filepath.Join(t.TempDir(), "weir.db") // whose audit log has who changed what
	})
	list := func() []string {
		var answer struct{ Data []listedModel }
		if _, text := s.Call(http.MethodGet, "/v1/models", "", ""); json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatal(text)
		}
		var all []string
		for _, m := range answer.Data {
			all = append(all, m.String())
		}
		return all
	}
	say := func(model string) string {
		var answer struct {
			Model       string
			Fingerprint string `json:"system_fingerprint"`
			Choices     []struct{ Text string }
		}
		status := s.PostInto("/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"The river was","max_tokens":12,"temperature":0}`, model), &answer)
		if status != http.StatusOK {
			return fmt.Sprint(status)
		}
		return answer.Model + ": " + answer.Choices[0].Text
	}
	post := func(path, body string) string {
		status, text := s.Call(http.MethodPost, path, "", body)
		return fmt.Sprint(status, " ", text)
	}
	if got, want := list(), []string{"chat chat", "zeta " + first + " of chat"}; !slices.Equal(got, want) {
		t.Errorf("the models are %q, not %q", got, want)
	}
	plain, zeta := say("chat"), say("zeta")
	if strings.TrimPrefix(plain, "chat") == strings.TrimPrefix(zeta, "zeta") || !strings.HasPrefix(zeta, "zeta: ") {
		t.Errorf("%q with the adapter, %q without", zeta, plain)
	}
	if got := say("chat:zeta"); got != zeta {
		t.Errorf("by the model's name and its own an adapter says %q, not %q", got, zeta)
	}
	if got := post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"alpha","lora_path":%q}`, second)); got != "200 Success: LoRA adapter 'alpha' added successfully." {
		t.Error(got)
	}
	alpha := say("alpha")
	if strings.TrimPrefix(alpha, "alpha") == strings.TrimPrefix(zeta, "zeta") {
		t.Errorf("two adapters say %q", alpha)
	}
	if got, want := list(), []string{"chat chat", "zeta " + first + " of chat", "alpha " + second + " of chat"}; !slices.Equal(got, want) {
		t.Errorf("the models are %q, not %q", got, want)
	}
	peft := t.TempDir()
	if err := os.WriteFile(filepath.Join(peft, "adapter_config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := servertest.AdapterFile(t, base, "large", 17, 0.1)
	for _, c := range []struct{ path, body, says string }{
		{"load", `{"lora_name":"alpha","lora_path":"` + first + `"}`, "400 .*has already been loaded"},
		{"load", `{"lora_name":"chat","lora_path":"` + first + `"}`, "400 .*is the name of a model"},
		{"load", `{"lora_name":"a:b","lora_path":"` + first + `"}`, "400 .*must be a name without @, :"},
		{"load", `{"lora_name":"a,b","lora_path":"` + first + `"}`, "400 .*must be a name without @, :, commas"},
		{"load", `{"lora_name":"beta","lora_path":"/not/an/adapter"}`, "404 .*there is no file /not/an/adapter"},
		{"load", `{"lora_name":"beta","lora_path":"` + peft + `"}`, "400 .*convert_lora_to_gguf.py"},
		{"load", `{"lora_name":"beta","lora_path":"` + base + `"}`, "400 .*the file is no adapter"},
		{"load", `{"lora_name":"beta","lora_path":"` + large + `"}`, "400 .*is greater than max_lora_rank 16"},
		{"load", `{"lora_name":"beta","lora_path":"` + first + `","base_model_name":"other"}`, "404 .*is none that this server computes"},
		{"load", `{"lora_name":"beta"}`, "400 .*lora_path"},
		{"unload", `{"lora_name":"beta"}`, "404 .*cannot be found"},
		{"unload", `{"lora_name":"chat"}`, "404 .*cannot be found"},
	} {
		status, says, _ := strings.Cut(c.says, " .*")
		if got := post("/v1/"+c.path+"_lora_adapter", c.body); !strings.HasPrefix(got, status+" ") || !strings.Contains(got, says) {
			t.Errorf("%s %s: %s", c.path, c.body, got)
		}
	}
	if got := say("alpha"); got != alpha {
		t.Errorf("after what was refused the adapter says %q, not %q", got, alpha)
	}
	if _, text := s.Get(s.Admin + "/metrics"); !strings.Contains(text, `vllm:lora_requests_info{engine="0",max_lora="3",model_name="chat",running_lora_adapters="",waiting_lora_adapters=""} `) {
		_, line, _ := strings.Cut(text, "\nvllm:lora_requests_info")
		line, _, _ = strings.Cut(line, "\n")
		t.Errorf("the metrics say %q of adapters", line)
	}
	if got := post("/api/show", `{"model":"zeta"}`); !strings.Contains(got, `"parent_model":"chat"`) || !strings.Contains(got, `"capabilities":["completion"`) {
		t.Errorf("Ollama's clients are shown %.300s", got)
	}
	if r := s.Post("/api/generate", `{"model":"zeta","prompt":"The river was","stream":false,"keep_alive":"1h","options":{"num_predict":1}}`); strings.Contains(r.Header.Get("x-weir-warnings"), "keep_alive") {
		t.Errorf("keep_alive: %s", r.Header.Get("x-weir-warnings"))
	}
	if _, text := s.Call(http.MethodGet, "/lora-adapters", "", ""); !strings.Contains(text, `"path":"zeta"`) {
		t.Errorf("llama.cpp's list is %s", text)
	}
	if got := post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"alpha","lora_path":%q,"load_inplace":true}`, first)); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if got := say("alpha"); strings.TrimPrefix(got, "alpha") != strings.TrimPrefix(zeta, "zeta") {
		t.Errorf("with zeta's file alpha says %q, and zeta %q", got, zeta)
	}
	if status := s.Control("", http.MethodPost, "/admin/models/load", fmt.Sprintf(`{"name":"gamma","path":%q}`, second), nil); status != http.StatusOK {
		t.Errorf("the admin listener answers %d", status)
	}
	if got := say("gamma"); strings.TrimPrefix(got, "gamma") != strings.TrimPrefix(alpha, "alpha") {
		t.Errorf("gamma says %q, and alpha with its file said %q", got, alpha)
	}
	if got := post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"delta","lora_path":%q}`, first)); !strings.Contains(got, "3 adapters are loaded, which is max_loras") {
		t.Error(got)
	}
	if status := s.Control("", http.MethodPost, "/admin/models/unload", `{"name":"gamma"}`, nil); status != http.StatusOK {
		t.Errorf("the admin listener answers %d", status)
	}
	if got := post("/v1/unload_lora_adapter", `{"lora_name":"zeta"}`); got != "200 Success: LoRA adapter 'zeta' removed successfully." {
		t.Error(got)
	}
	if got := say("zeta") + say("gamma") + say("chat:zeta"); got != "404404404" {
		t.Errorf("what was unloaded says %s", got)
	}
	if got := say("chat"); got != plain {
		t.Errorf("the model says %q, not %q", got, plain)
	}
}

// What an operator has unloaded or replaced stays so over a reload, until that changes the adapter's own setting.
func TestReloadsBringAdaptersBack(t *testing.T) {
	base := servertest.EmbeddedFile(t)
	first, second := servertest.AdapterFile(t, base, "first", 4, 0.2), servertest.AdapterFile(t, base, "second", 8, 0.4)
	from := new(servertest.Source)
	s := servertest.StartFrom(t, from, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames, c.Model.EnableLora = base, []string{"chat"}, true
		c.Model.Adapters = []string{"a=" + first, "b=" + first, "c=" + first}
	})
	call := func(path, body string) {
		t.Helper()
		if status, text := s.Call(http.MethodPost, path, "", body); status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", path, body, status, text)
		}
	}
	roots := func() string {
		var answer struct{ Data []listedModel }
		if _, text := s.Call(http.MethodGet, "/v1/models", "", ""); json.Unmarshal([]byte(text), &answer) != nil {
			t.Fatal(text)
		}
		all := ""
		for _, m := range answer.Data[1:] {
			all += m.ID + "=" + strings.NewReplacer(first, "first", second, "second").Replace(m.Root) + " "
		}
		return all
	}
	reload := func(list ...string) {
		t.Helper()
		from.Change(func(c *configs.Config) { c.Model.Adapters = list }, nil)
		if status, body := s.Reload(); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	call("/v1/unload_lora_adapter", `{"lora_name":"a"}`)
	call("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"b","lora_path":%q,"load_inplace":true}`, second))
	reload("a="+first, "b="+first, "c="+second)
	if got, want := roots(), "c=second b=second "; got != want {
		t.Errorf("after a reload that changes another one there are %s, not %s", got, want)
	}
	reload("a="+second, `{"name":"b","path":"`+first+`","scale":2}`, "c="+second)
	if got, want := roots(), "a=second b=first c=second "; got != want {
		t.Errorf("after a reload that changes them there are %s, not %s", got, want)
	}
	call("/v1/completions", `{"model":"a","prompt":"The river was","max_tokens":1}`)
	call("/v1/completions", `{"model":"b","prompt":"The river was","max_tokens":1}`)
	call("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"d","lora_path":%q}`, second))
	from.Change(func(c *configs.Config) { c.Model.ServedNames = []string{"chat", "d"} }, nil)
	if status, body := s.Reload(); status == http.StatusOK || !strings.Contains(body, `"d\" stands for chat, and for an adapter`) {
		t.Errorf("a reload with a model that has an adapter's name: %d %s", status, body)
	}
	call("/v1/unload_lora_adapter", `{"lora_name":"d"}`)
	if status, body := s.Reload(); status != http.StatusOK {
		t.Errorf("once the adapter is unloaded: %d %s", status, body)
	}
	call("/v1/completions", `{"model":"d","prompt":"The river was","max_tokens":1}`)
}

// Without --enable-lora no caller loads files of the server.
func TestAdaptersAreLoadedByOperatorsAlone(t *testing.T) {
	s := servertest.Start(t, nil)
	if status, text := s.Call(http.MethodPost, "/v1/load_lora_adapter", "", `{"lora_name":"a","lora_path":"/etc/passwd"}`); status != http.StatusNotImplemented || !strings.Contains(text, "--enable-lora") {
		t.Errorf("%d %s", status, text)
	}
}

// All questions of a call are answered with the adapter that the call began with, however often another one takes its name meanwhile; and a request
// that finds none any more is told that there is no such model.
func TestCallsKeepTheirAdapter(t *testing.T) {
	base := servertest.EmbeddedFile(t)
	files := []string{servertest.AdapterFile(t, base, "first", 4, 0.2), servertest.AdapterFile(t, base, "second", 8, 0.4)}
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames, c.Model.EnableLora = base, []string{"chat"}, true
		c.Model.Adapters = []string{"a=" + files[0], "b=" + files[1]}
	})
	var questions []string // of several waves
	for i := range 300 {
		questions = append(questions, fmt.Sprintf(`{"type":"predicate","instructions":"It is number %d"}`, i))
	}
	decide := func(model string) (status int, answers string) {
		status, text := s.Call(http.MethodPost, "/v1/decisions", "", `{"model":"`+model+`","input":"x","questions":[`+strings.Join(questions, ",")+"]}")
		var answer struct{ Answers json.RawMessage }
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Error(err, text)
		}
		if status != http.StatusOK {
			return status, text
		}
		return status, string(answer.Answers)
	}
	_, first := decide("a")
	_, second := decide("b")
	change := func(path, body string) {
		if status, text := s.Call(http.MethodPost, path, "", body); status != http.StatusOK {
			t.Errorf("%s %s: %d %s", path, body, status, text)
		}
	}
	replaces := func(i int) {
		change("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"a","lora_path":%q,"load_inplace":true}`, files[i%2]))
	}
	unloads := func(int) {
		change("/v1/unload_lora_adapter", `{"lora_name":"a"}`)
		change("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name":"a","lora_path":%q}`, files[0]))
	}
	for name, do := range map[string]func(int){"replaced": replaces, "unloaded": unloads} {
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-done:
					return
				default:
					do(i)
				}
			}
		})
		for range 4 {
			status, got := decide("a")
			if gone := status == http.StatusNotFound && strings.Contains(got, "model_not_found"); got != first && got != second && !gone {
				t.Errorf("while its adapter is %s a call is answered %d %.300s", name, status, got)
			}
		}
		close(done)
		wg.Wait()
	}
}
