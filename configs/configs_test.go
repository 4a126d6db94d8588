package configs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/api"
	"weir/api/tenant"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

// A good fixture begins with "# want: key=value" lines; a bad one with
// "# error: text" lines, each a part of the error.
func expectations(t *testing.T, data, label string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(data) {
		if want, ok := strings.CutPrefix(line, "# "+label+": "); ok {
			found = append(found, strings.TrimSuffix(want, "\n"))
		}
	}
	if len(found) == 0 {
		t.Fatalf("the fixture has no %q line", label)
	}
	return found
}

func fixtures(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures %s: %v", pattern, err)
	}
	return paths
}

func readFixture(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGoodFiles(t *testing.T) {
	for _, path := range fixtures(t, "*.good.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := New()
			if err := s.ReadFile(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Config(); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for setting := range s.All() {
				got[setting.Key] = setting.show()
			}
			for _, want := range expectations(t, readFixture(t, path), "want") {
				key, value, _ := strings.Cut(want, "=")
				if actual, known := got[key]; !known || actual != value {
					t.Errorf("%s is %q, want %q", key, actual, value)
				}
			}
			checkEntries(t, s, readFixture(t, path))
		})
	}
}

// checkEntries looks for the lines "# entry: key=value (origin)" of a fixture
// among the values of the file's lists.
func checkEntries(t *testing.T, s *Sources, data string) {
	t.Helper()
	var got []string
	for _, e := range s.Entries() {
		got = append(got, fmt.Sprintf("%s=%s (%s)", e.Key, e.Value, e.Origin))
	}
	if !strings.Contains(data, "# entry: ") {
		return
	}
	for _, want := range expectations(t, data, "entry") {
		if !slices.Contains(got, want) {
			t.Errorf("no entry %s among\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// The commented sample of the example file is a file that weir reads, and shows
// every key of its records.
func TestSampleOfLists(t *testing.T) {
	var b strings.Builder
	b.WriteString("server: {tls_certificate: a, tls_key: b, tls_client_ca: c, region: eu}\n") // which tenants' certificates and residency need
	for line := range strings.Lines(sample + brownoutSample + classicSample + modelsSample + policiesSample) {
		if text := strings.TrimPrefix(line, "# "); strings.HasPrefix(text, " ") || strings.HasSuffix(strings.TrimSpace(text), ":") {
			b.WriteString(text)
		}
	}
	s := New()
	if err := s.Decode("sample.yml", []byte(b.String())); err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	c, err := s.Config()
	if err != nil || len(c.Tenants) != 2 || len(c.Issuers) != 1 || len(c.Brownout) != 2 || len(c.Classic) != 2 || len(c.Models) != 3 || len(c.Policies) != 1 {
		t.Fatalf("%d tenants, %d issuers, %v", len(c.Tenants), len(c.Issuers), err)
	}
	var shown []string
	for _, e := range s.Entries() {
		shown = append(shown, e.Key)
	}
	for prefix, fields := range map[string][]field{
		"tenants[0].": tenantFields(&c.Tenants[0]), "tenants[0].limits.": limitFields(&c.Tenants[0].Limits),
		"issuers[0].": issuerFields(&c.Issuers[0]), "tenants[0].claims[0].": claimFields(&c.Tenants[0].Claims[0]),
		"brownout[1].": stepFields(&c.Brownout[1]), "classic[0].": classicFields(&c.Classic[0]),
		"models[0].": modelFields(&c.Models[0]), "models[0].check.": checkFields(&c.Models[0].Check), "policies[0].": policyFields(&c.Policies[0]),
	} {
		for _, f := range fields {
			if f.nested == nil && !slices.Contains(shown, prefix+f.key) {
				t.Errorf("the sample lacks %s%s", prefix, f.key)
			}
		}
	}
}

// load reads the file of a process that listens over the defaults, without
// environment and flags.
func load(path string) (Config, error) {
	s := New()
	if err := s.ReadFile(path); err != nil {
		return Config{}, err
	}
	c, err := s.Config()
	if err != nil {
		return Config{}, err
	}
	return c, c.CheckExposure(false)
}

func TestBadFiles(t *testing.T) {
	for _, path := range fixtures(t, "*.bad.yml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := load(path)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			for _, want := range expectations(t, readFixture(t, path), "error") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestExampleFileIsCurrentAndEqualsTheDefaults(t *testing.T) {
	const path = "weir.example.yml"
	if *rewrite {
		if err := os.WriteFile(path, []byte(Example()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readFixture(t, path) != Example() {
		t.Error("weir.example.yml is not what Example returns; run go test ./configs -rewrite")
	}
	got, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, Default()) {
		t.Errorf("the example file gives\n%+v\nthe defaults are\n%+v", got, Default())
	}
}

func TestDefaultsAreAcceptedByTheirOwnSettings(t *testing.T) {
	s := New()
	for i := range s.table {
		setting := &s.table[i]
		if setting.IsList() {
			continue
		}
		if err := setting.set(setting.show()); err != nil {
			t.Errorf("%s: the default %q %v", setting.Key, setting.show(), err)
		}
	}
	if !reflect.DeepEqual(s.config, Default()) {
		t.Error("showing and setting every default changed the tree")
	}
	if _, err := s.Config(); err != nil {
		t.Error(err)
	}
}

func TestNamesAreUnique(t *testing.T) {
	keys, flags := make(map[string]bool), make(map[string]bool)
	for setting := range New().All() {
		if keys[setting.Key] || flags[setting.Flag] {
			t.Errorf("%s or --%s is bound twice", setting.Key, setting.Flag)
		}
		keys[setting.Key], flags[setting.Flag] = true, true
		if setting.Usage == "" || setting.Accepts() == "" {
			t.Errorf("%s lacks usage or accepted values", setting.Key)
		}
	}
}

// Every field of the tree that a person could want to set has a setting:
// changing it through its own setting must change the tree.
func TestEverySettingReachesTheTree(t *testing.T) {
	other := map[string]string{
		"scheduler.share_default_percent": "20", "scheduler.share_batch_percent": "20",
		"server.host": "localhost", "server.admin_address": "off", "server.grpc_address": "127.0.0.1:8001",
		"engine.block_size": "32", "model.engine": LlamaCppEngine, "engine.kv_cache_dtype": "q8_0", "engine.encoder_dtype": "float32", "engine.cpu_level": "portable",
		"log.level": "debug", "api.heartbeat": "off", "api.reasoning": "reasoning", "log.format": "json", "model.path": "x.gguf",
		"trace.sample_ratio":          "0.25",
		"server.allowed_origins":      "https://chat.example",
		"engine.prefix_cache_key":     "sixteen bytes or more",
		"server.retry_while_draining": "false",
		"server.labels":               "role=decode",
		"server.advertise_url":        "http://10.0.0.7:8000",
		"quota.redis":                 "redis://localhost:6379/0", "quota.failure": "closed",
		"predict.feature_redis": "redis://localhost:6379/0", "predict.drift_psi": "0.3", "predict.log_inputs": "full",
		"store.url":                          "sqlite:x",
		"store.key_pepper":                   "thirty-two bytes or more, that are not known",
		"store.master_key":                   "pepper",
		"store.data_keys":                    "sqlite:y",
		"store.prompt_retention":             "48h",
		"files.ttl":                          "48h",
		"batch.price_percent":                "20",
		"model.embedding_prompts":            "query=search_query: ",
		"model.default_chat_template_kwargs": `{"enable_thinking": false}`,
		"model.lora_modules":                 "sql=sql.gguf",
		"model.decision_calibration":         "predicate=2.5",
		"engine.speculative_config":          `{"method": "ngram", "num_speculative_tokens": 77}`,
	}
	s := New()
	for i := range s.table {
		setting := &s.table[i]
		before := fmt.Sprintf("%+v", s.config)
		value, named := other[setting.Key]
		switch {
		case named:
		case setting.kind == integer:
			value = "1234"
			if setting.set(value) != nil {
				value = "123"
			}
		case setting.kind == boolean:
			value = "true"
		case setting.kind == amount:
			value = "7"
		default:
			value = "something"
		}
		if err := setting.set(value); err != nil {
			t.Errorf("%s: %v", setting.Key, err)
		} else if before == fmt.Sprintf("%+v", s.config) {
			t.Errorf("%s does not change the tree", setting.Key)
		}
	}
}

func TestStrongerSourcesWin(t *testing.T) {
	s := New()
	file := "server:\n  host: localhost\n  port: 1001\n  api_key: [from-the-file, another-key]\nlog:\n  level: warn\n"
	if err := s.Decode("weir.yml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	unknown, err := s.ReadEnv([]string{"HOME=/x", "WEIR_PORT=1002", "WEIR_API_KEY=key-from-env,second-key",
		"WEIR_CONFIG=weir.yml", "WEIR_PROT=1"})
	if err != nil {
		t.Fatal(err)
	}
	if len(unknown) != 1 || unknown[0] != "WEIR_PROT" {
		t.Errorf("unknown variables %v", unknown)
	}
	for _, f := range [][2]string{{"port", "1003"}, {"served-model-name", "one"}, {"served-model-name", "two"}} {
		if err := s.SetFlag(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct{ key, value, origin string }{
		{"server.host", "localhost", "file weir.yml:2"},
		{"server.port", "1003", "flag --port"},
		{"server.api_key", "(hidden)", "environment WEIR_API_KEY"},
		{"model.served_model_name", "one,two", "flag --served-model-name"},
		{"log.level", "warn", "file weir.yml:6"},
		{"log.format", "auto", "default"},
	} {
		for setting, origin := range s.All() {
			if setting.Key == want.key && (setting.Value() != want.value || origin.String() != want.origin) {
				t.Errorf("%s is %q from %s; want %q from %s", want.key, setting.Value(), origin, want.value, want.origin)
			}
		}
	}
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.API.APIKeys, " "); got != "key-from-env second-key" {
		t.Errorf("keys %q: the environment must replace the file's", got)
	}
}

func TestSourceErrorsNameTheSource(t *testing.T) {
	s := New()
	_, err := s.ReadEnv([]string{"WEIR_PORT=tcp://10.0.0.1:8000", "WEIR_LOG_LEVEL=loud"})
	want := `WEIR_PORT: server.port: "tcp://10.0.0.1:8000" is not a whole number; it takes a whole number from 0 to 65535
WEIR_LOG_LEVEL: log.level: "loud" is not accepted; it takes one of debug, info, warn, error`
	if err == nil || err.Error() != want {
		t.Errorf("environment:\n%v\nwant\n%s", err, want)
	}
	err = s.SetFlag("max-num-seqs", "0")
	want = `--max-num-seqs: scheduler.max_num_seqs: "0" is out of range; it takes a whole number from 1 to 65536`
	if err == nil || err.Error() != want {
		t.Errorf("flag:\n%v\nwant\n%s", err, want)
	}
	if err := s.SetFlag("no-such-flag", "1"); err == nil {
		t.Error("an unknown flag was accepted")
	}
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	err := New().Decode("weir.yml", []byte("server:\n  api_key: [good, {a: b}]\n"))
	if err == nil || strings.Contains(err.Error(), "good") {
		t.Errorf("error %v", err)
	}
	err = New().Decode("weir.yml", []byte("server:\n  api_key: 123456\n"))
	if err == nil || strings.Contains(err.Error(), "123456") || !strings.Contains(err.Error(), "hidden") {
		t.Errorf("error %v", err)
	}
}

func TestListenersBeyondLoopbackNeedAKey(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		ok     bool
	}{
		{"loopback", func(*Config) {}, true},
		{"every interface", func(c *Config) { c.Server.Host = "0.0.0.0" }, false},
		{"every interface, key", func(c *Config) { c.Server.Host = "0.0.0.0"; c.API.APIKeys = []string{"0123456789"} }, true},
		{"every interface, insecure", func(c *Config) { c.Server.Host = "::"; c.Server.Insecure = true }, true},
		{"another loopback address", func(c *Config) { c.Server.Host = "127.8.8.8" }, true},
		{"IPv6 loopback", func(c *Config) { c.Server.Host = "::1" }, true},
		{"a name that only looks local", func(c *Config) { c.Server.Host = "localhost.example.org" }, false},
		{"metrics beyond loopback", func(c *Config) {
			c.Server.AdminAddress = "0.0.0.0:9090"
		}, false},
		{"metrics beyond loopback, key", func(c *Config) {
			c.Server.AdminAddress, c.API.APIKeys = "0.0.0.0:9090", []string{"0123456789"}
		}, true},
		{"no metrics", func(c *Config) { c.Server.AdminAddress = "off" }, true},
	} {
		config := Default()
		c.change(&config)
		if err := config.CheckExposure(false); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSettingsOfTLSBelongTogether(t *testing.T) {
	acme := tenant.New("acme")
	acme.Certificates = []string{"cn:acme"}
	for _, c := range []struct {
		server  Server
		tenants []tenant.Tenant
		want    string // "": good
	}{
		{server: Server{TLS: api.TLSFiles{Certificate: "a", Key: "b"}, TLSAdmin: true}},
		{server: Server{TLS: api.TLSFiles{Certificate: "a", Key: "b", ClientCA: "c"}}, tenants: []tenant.Tenant{acme}},
		{server: Server{TLS: api.TLSFiles{Certificate: "a"}}, want: "--tls-key"},
		{server: Server{TLS: api.TLSFiles{Key: "b"}}, want: "--tls-certificate"},
		{server: Server{TLS: api.TLSFiles{ClientCA: "c"}}, want: "--tls-certificate"},
		{server: Server{TLSAdmin: true}, want: "--tls-certificate"},
		{server: Server{TLS: api.TLSFiles{Certificate: "a", Key: "b"}}, tenants: []tenant.Tenant{acme}, want: "--tls-client-ca"},
		{tenants: []tenant.Tenant{acme}, want: "--tls-client-ca"},
	} {
		config := Default()
		config.Server.TLS, config.Server.TLSAdmin, config.Tenants = c.server.TLS, c.server.TLSAdmin, c.tenants
		err := config.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %d tenants: %v, want %q", c.server.TLS, len(c.tenants), err, c.want)
		}
	}
}

func TestLargeFilesAreRefused(t *testing.T) {
	if err := New().Decode("big.yml", make([]byte, maxFileBytes+1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("error %v", err)
	}
	// A device has no size and no end.
	if err := New().ReadFile("/dev/zero"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("an endless file: %v", err)
	}
	if err := New().ReadFile(filepath.Join(t.TempDir(), "absent.yml")); err == nil {
		t.Error("an absent file was accepted")
	}
}

// FuzzDecode checks that no document panics, and that one which is accepted
// can be shown and set again to the same tree.
func FuzzDecode(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yml", "weir.example.yml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New()
		if err := s.Decode("fuzz.yml", data); err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		again := New()
		for i := range s.table {
			if s.table[i].IsList() || s.table[i].show() == "" {
				continue
			}
			if err := again.table[i].set(s.table[i].show()); err != nil {
				t.Errorf("%s: own value %q %v", s.table[i].Key, s.table[i].show(), err)
			} else if got, want := again.table[i].show(), s.table[i].show(); got != want {
				t.Errorf("%s: %q became %q", s.table[i].Key, want, got)
			}
		}
	})
}

func TestTaskPrompts(t *testing.T) {
	file := "model:\n  embedding_prompts: ['query=search_query: ', 'pairs=a=b, c']\n"
	s := New()
	if err := s.Decode("weir.yml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	c, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Model.TaskPrompts(); len(got) != 2 || got["query"] != "search_query: " || got["pairs"] != "a=b, c" {
		t.Errorf("%q", got)
	}
	for _, wrong := range []string{"query", "=text", "query="} {
		if err := New().SetFlag("embedding-prompt", wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	c.Model.Prompts = []string{"query=a", "query=b"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "embedding_prompts") {
		t.Errorf("two prompts of one name: %v", err)
	}
}
