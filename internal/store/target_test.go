package store

import (
	"net/url"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"sqlite:weir.db":                             "sqlite:weir.db",
		"sqlite:/var/lib/weir/a b%41ü.db":            "sqlite:/var/lib/weir/a b%41ü.db",
		"sqlite:///var/weir.db":                      "sqlite:///var/weir.db",
		"postgres://u:topsecret@h/d":                 "postgres://h/d",
		"postgresql://u@h:5433/d?password=topsecret": "postgres://h:5433/d",
	} {
		got, err := parseTarget(text)
		if err != nil || got.shown != want {
			t.Errorf("%s is %s, %v", text, got.shown, err)
		}
	}
	for text, want := range map[string]string{
		"":                                         "no scheme",
		"weir.db":                                  "no scheme",
		"mysql://h/d":                              `"mysql"`,
		"sqlite:":                                  "names no file",
		"sqlite::memory:":                          "lost",
		"sqlite://weir.db":                         "names a host",
		"sqlite:weir.db?mode=ro":                   "may not have",
		"sqlite:a\x00b":                            "may not have",
		"postgres://u:topsecret@h:port/d":          "cannot be read",
		"postgres://u:topsecret@h/d?sslmode=x":     "sslmode",
		"postgres:///d":                            "names no host",
		"postgres://u:topsecret@h/d?pool=%zz":      "percent-encoded",
		"sqlite:" + strings.Repeat("a", 5000):      "5007 bytes",
		"postgres://topsecret@h:1/d?port=tops":     "port",
		"postgres://u:x@h/d?connect_timeout=-7":    "timeout",
		"postgres://u:x@h/d?sslrootcert=/no/where": "/no/where",
	} {
		_, err := parseTarget(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

// A file's name reaches SQLite as it is, whatever characters are in it.
func TestFileNamesAreKept(t *testing.T) {
	for _, path := range []string{"weir.db", "/a b/ü%20&=+;.db", "./x:y", "a//b"} {
		u, err := url.Parse(target{path: path}.dsn(true, synced))
		if err != nil {
			t.Fatal(err)
		}
		name := u.Opaque
		if name == "" {
			name = u.EscapedPath()
		}
		if got, err := url.PathUnescape(name); err != nil || got != path || u.Host != "" {
			t.Errorf("%q becomes %s", path, u)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, text := range []string{
		"sqlite:weir.db", "sqlite:///a%zz", "sqlite://x", "postgres://u:p@h:5432/d?sslmode=disable&search_path=a", "postgres://h1,h2/d",
		"postgresql://[::1]/?host=/tmp", ":", "x",
	} {
		f.Add(text)
	}
	f.Setenv("PGSERVICEFILE", "/nonexistent")
	f.Setenv("PGPASSFILE", "/nonexistent")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTarget(text)
		if err != nil {
			return
		}
		if (got.path == "") == (got.postgres == nil) {
			t.Errorf("%q is %+v", text, got)
		}
		if got.path != "" {
			if _, err := url.Parse(got.dsn(false, synced)); err != nil || "sqlite:"+got.path != text {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
