//! The worker of the server as a program of its own, for tests that have no `ttmem` to start again.

fn main() {
    ttmem_serve::work();
}
