//! Round-robin TCP load balancer: bytes are copied both ways. A node that refuses the connection is skipped; when a node
//! dies, its connections are dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Balancer {
    pub(crate) async fn start(listener: TcpListener, nodes: Vec<SocketAddr>) -> Self {
        let address = listener.local_addr().unwrap();
        let next_node = Arc::new(AtomicUsize::new(0));
        let nodes: Arc<[SocketAddr]> = nodes.into();
        let task = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(proxy(caller, nodes.clone(), next_node.clone()));
            }
        });
        Self { address, task }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn proxy(mut caller: TcpStream, nodes: Arc<[SocketAddr]>, next_node: Arc<AtomicUsize>) {
    let first = next_node.fetch_add(1, Ordering::Relaxed);
    for node in nodes
        .iter()
        .cycle()
        .skip(first % nodes.len())
        .take(nodes.len())
    {
        if let Ok(mut node) = TcpStream::connect(node).await {
            let _ = tokio::io::copy_bidirectional(&mut caller, &mut node).await;
            return;
        }
    }
}
