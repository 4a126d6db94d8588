package configs

import (
	"time"

	"weir/api/batch"
)

// Files says where the files of tenants are, and how batches run.
type Files struct {
	Dir    string       // empty: beside the SQLite file, or in the state directory
	Limits batch.Limits // LineBytes follows HTTP.MaxRequestBytes
}

func defaultFiles() Files { return Files{Limits: batch.DefaultLimits()} }

func filesSettings(c *Config) []Setting {
	l := &c.Files.Limits
	return []Setting{
		{Key: "files.dir", Flag: "file-dir",
			Usage: "folder of the files that tenants upload and that batches make, which weirs with the same store share; empty is a " +
				"folder beside the SQLite file, or in the state directory",
			binding: bindText(&c.Files.Dir, "a path", anyText)},
		{Key: "files.max_bytes", Flag: "file-max-bytes", Usage: "size of the largest file that may be uploaded",
			binding: bindBytes(&l.FileBytes, "")},
		{Key: "files.tenant_bytes", Flag: "file-tenant-bytes", Usage: "storage for the files of one tenant; 0 is no bound",
			binding: bindBytes(&l.TenantBytes, "")},
		{Key: "files.ttl", Flag: "file-ttl",
			Usage:   "life of the files of batches whose client sets none, input and output; files of user_data live until they are deleted",
			binding: bindDuration(&l.FileTTL, time.Hour, 10*365*24*time.Hour)},
		{Key: "batch.concurrency", Flag: "batch-concurrency", Usage: "lines of batches that run at a time while no other requests do",
			binding: bindInt(&l.Concurrency, 1, 1024, "")},
		{Key: "batch.busy_concurrency", Flag: "batch-busy-concurrency",
			Usage:   "lines of batches that run at a time beside other requests; 0 lets batches wait for the machine to be idle",
			binding: bindInt(&l.BusyConcurrency, 0, 1024, "")},
		{Key: "batch.price_percent", Flag: "batch-price-percent", Usage: "share of the models' prices that lines of batches cost, in percent",
			binding: bindInt(&l.PricePercent, 0, 100, "")},
	}
}
