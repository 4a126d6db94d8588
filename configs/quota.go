package configs

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/quota"
)

// Quota says where what tenants use is counted.
type Quota struct {
	Redis   string        // URL; empty: each process counts by itself
	Failure string        // one of QuotaFailures
	Lease   time.Duration // after it what a dead process ran is over
	Timeout time.Duration // of one decision
}

// What happens to requests while Redis cannot be reached.
const (
	QuotaOpen   = "open"   // each process counts by itself
	QuotaClosed = "closed" // requests of limited tenants are refused
)

// QuotaFailures are the values of Quota.Failure.
var QuotaFailures = []string{QuotaOpen, QuotaClosed}

func quotaSettings(c *Config) []Setting {
	return []Setting{
		{Key: "quota.redis", Flag: "quota-redis", Secret: true,
			Usage: "Redis 7 in which weirs count together what tenants use, as redis://:PASSWORD@HOST:6379/0; empty counts " +
				"in each process",
			binding: bindText(&c.Quota.Redis, "redis://…, rediss://…, or nothing", isRedisURL)},
		{Key: "quota.failure", Flag: "quota-failure",
			Usage:   "while Redis cannot be reached: open counts in each process, closed refuses requests of limited tenants",
			binding: bindChoice(&c.Quota.Failure, QuotaFailures)},
		{Key: "quota.lease", Flag: "quota-lease",
			Usage:   "time after which requests of a process that died run no more in Redis; what they may have used counts as spent",
			binding: bindDuration(&c.Quota.Lease, time.Second, time.Hour)},
		{Key: "quota.timeout", Flag: "quota-timeout", Usage: "time that Redis gets for a decision",
			binding: bindDuration(&c.Quota.Timeout, time.Millisecond, time.Minute)},
	}
}

func isRedisURL(s string) bool {
	return s == "" || strings.HasPrefix(s, "redis://") || strings.HasPrefix(s, "rediss://")
}

// classPercentFields binds a percentage for each class.
func classPercentFields(p *[inference.NumClasses]int) []field {
	var list []field
	for c, name := range tenant.ClassNames() {
		list = append(list, field{key: name, binding: bindInt(&p[c], 1, quota.MaxClassPercent, "")})
	}
	return list
}

// decodePrices reads the list of models' prices.
func (s *Sources) decodePrices(d *fileDecoder, n *yaml.Node) error {
	prices := map[string]quota.Price{}
	err := d.records(n, "prices", func(n *yaml.Node, path string) error {
		var model string
		var p quota.Price
		fields := []field{
			{key: "model", binding: bindText(&model, "the name of a model", anyText)},
			{key: "input", binding: bindMoney(&p.Input)},
			{key: "cached_input", binding: bindMoney(&p.CachedInput)},
			{key: "output", binding: bindMoney(&p.Output)},
			{key: "class_percent", nested: func(d *fileDecoder, n *yaml.Node, path string) error {
				return d.record(n, path, classPercentFields(&p.ClassPercent))
			}},
		}
		if err := d.record(n, path, fields); err != nil {
			return err
		}
		if _, twice := prices[model]; twice || model == "" {
			return d.errorf(n, "%s is for the model %q; it must name one that has no other entry", path, model)
		}
		if err := p.Validate(); err != nil {
			return d.errorf(n, "%s: %v", path, err)
		}
		prices[model] = p
		return nil
	})
	if err == nil {
		s.config.Prices = prices
	}
	return err
}
