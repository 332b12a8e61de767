package herdrcli

import "context"

// AgentSendKeys presses one key, such as ctrl+c, in the agent's terminal.
// Herdr's codes: agent_not_found, agent_not_ready, invalid_key. If it fails with
// anything but ErrRefused and Error.Started is set, the key may have arrived.
func (c *Client) AgentSendKeys(ctx context.Context, target, key string) error {
	_, err := c.call(ctx, "ok", func(*answer) bool { return true }, "agent send-keys", 0, target, key)
	return err
}
