//! Files of a node's host, read by the node.

use std::time::Duration;

use crate::node::{CallFault, Node};
use crate::term::{
    ExternalFun, Term, as_atom, as_bytes, as_list, as_tuple, binary, in_words, list,
};

/// A file's bytes, or in a word why the node could not read it.
pub type FileText = Result<Vec<u8>, String>;

impl Node {
    /// Reads files there, in one call and in their order.
    ///
    /// By `prim_file:read_file/1`, which every node has loaded: no process of the node is asked, and none of its
    /// descriptors is held longer than each read takes.
    pub fn read_files(
        &self,
        paths: &[String],
        timeout: Duration,
    ) -> Result<Vec<FileText>, CallFault> {
        let read = Term::from(ExternalFun::from(("prim_file", "read_file", 1)));
        let names = list(paths.iter().map(|path| binary(path.as_bytes())).collect());
        let answers = self.call("lists", "map", vec![read, names], timeout)?;
        let answers = as_list(&answers).unwrap_or_default();
        Ok(answers.iter().map(text).collect())
    }
}

fn text(answer: &Term) -> FileText {
    match as_tuple(answer) {
        Some([ok, bytes]) if as_atom(ok) == Some("ok") => {
            as_bytes(bytes).map(<[u8]>::to_vec).ok_or_else(|| in_words(bytes))
        }
        Some([_, reason]) => Err(in_words(reason)),
        _ => Err(in_words(answer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{atom, tuple};

    #[test]
    fn an_answer_is_bytes_or_a_reason() {
        assert_eq!(text(&tuple(vec![atom("ok"), binary("7\n")])), Ok(b"7\n".to_vec()));
        assert_eq!(text(&tuple(vec![atom("error"), atom("enoent")])), Err("'enoent'".into()));
        assert!(text(&atom("strange")).is_err());
    }
}
