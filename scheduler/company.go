package scheduler

import "time"

// companyTime is how long a tenant that sent a request counts as present.
const companyTime = 10 * time.Second

// protectionTime is how long after a tenant's last request others' sequences leave it the floor of its prefix cache.
const protectionTime = time.Minute

// company knows whether several tenants have sent requests lately.
type company struct {
	tenant string // of the last request
	at     int64  // when that came
	other  int64  // when the last one of another tenant came; 0 is never
}

func (c *company) note(now int64, tenant string) {
	if c.at != 0 && c.tenant != tenant {
		c.other = c.at
	}
	c.tenant, c.at = tenant, now
}

func (c *company) several(now int64) bool {
	return c.other != 0 && now-c.other <= int64(companyTime)
}
