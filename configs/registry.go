package configs

import "strings"

// Registry says where versions of models are kept, and what may be pulled.
type Registry struct {
	Dir        string   // an OCI image layout; empty: models in the data directory
	CacheBytes int64    // of all pulled models; 0: any
	Preload    []string // models that weir models pull takes when it is given none, and that are never evicted
	Username   string   // at registries; empty: what Docker's configuration has for each
	Password   string
	Pull       bool // a model that is not here is pulled before the start

	RequireApproval bool // models that are not approved are not served
	AllowPull       bool // POST /api/pull brings in models that are not served
}

func registrySettings(c *Config) []Setting {
	return []Setting{
		{Key: "registry.dir", Flag: "models-dir",
			Usage:   "folder of imported and pulled models, an OCI image layout; empty is weir/models in $XDG_DATA_HOME",
			binding: bindText(&c.Registry.Dir, "a folder, or nothing", anyText)},
		{Key: "registry.cache_bytes", Flag: "models-cache-bytes",
			Usage: "disk for pulled models: a pull gives up those used least recently, never imported ones or those that a process " +
				"uses; 0 is no limit",
			binding: bindBytes(&c.Registry.CacheBytes, "")},
		{Key: "registry.preload", Flag: "models-preload",
			Usage:   "model that weir models pull brings in when it is given none, and that the cache never gives up; repeat for several",
			binding: bindNames(&c.Registry.Preload, "a name such as weir models pull takes", func(s string) bool { return !strings.ContainsAny(s, " \t\r\n") })},
		{Key: "registry.username", Flag: "registry-username", Usage: "user at OCI registries; empty takes what docker login has kept",
			binding: bindText(&c.Registry.Username, "a name, or nothing", anyText)},
		{Key: "registry.password", Flag: "registry-password", Secret: true, Usage: "password or token at OCI registries, best from the environment",
			binding: bindText(&c.Registry.Password, "a password, or nothing", anyText)},
		{Key: "registry.pull", Flag: "pull",
			Usage:   "pull a model that is named and not here, before the start; without it weir asks on a terminal, and elsewhere refuses",
			binding: bindBool(&c.Registry.Pull)},
		{Key: "registry.require_approval", Flag: "require-approval",
			Usage:   "serve only versions of the models folder whose record says who approved them (weir models import --approved-by), and the built-in model",
			binding: bindBool(&c.Registry.RequireApproval)},
		{Key: "registry.allow_pull", Flag: "allow-pull",
			Usage:   "POST /api/pull brings a model into the models folder and serves it, for callers with the scope admin, who without keys are all callers",
			binding: bindBool(&c.Registry.AllowPull)},
	}
}
