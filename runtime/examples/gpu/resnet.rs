//! A network with the shape of ResNet-50 (He et al., 2015, table 1; stride in the 3 x 3, as in
//! torchvision): a training step of known size.

use tch::nn::{self, ConvConfig, ModuleT as _, Path, SequentialT};
use tch::{Kind, Tensor};

/// Number of blocks and of inner channels of each stage.
const STAGES: [(usize, i64); 4] = [(3, 64), (4, 128), (6, 256), (3, 512)];

#[derive(Debug)]
pub(crate) struct ResNet50 {
    stem: SequentialT,
    blocks: Vec<Block>,
    last: nn::Linear,
}

#[derive(Debug)]
struct Block {
    inner: SequentialT,
    shortcut: Option<SequentialT>,
}

impl ResNet50 {
    pub(crate) fn new(root: &Path<'_>, n_classes: i64) -> Self {
        let stem = conv(&(root / "stem"), 3, 64, 7, 2)
            .add_fn(|x| x.relu().max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false));
        let (mut blocks, mut from) = (Vec::new(), 64);
        for (stage, (n, inner)) in STAGES.into_iter().enumerate() {
            for i in 0..n {
                let stride = if stage > 0 && i == 0 { 2 } else { 1 };
                let path = root / format!("stage{stage}") / i;
                blocks.push(Block::new(&path, from, inner, stride));
                from = inner * 4;
            }
        }
        Self { stem, blocks, last: nn::linear(root / "last", from, n_classes, Default::default()) }
    }

    /// Scores `[n, classes]` of images `[n, 3, h, w]`.
    pub(crate) fn forward(&self, images: &Tensor, train: bool) -> Tensor {
        let mut x = self.stem.forward_t(images, train);
        for block in &self.blocks {
            x = block.forward(&x, train);
        }
        x.mean_dim([2_i64, 3].as_slice(), false, None::<Kind>).apply(&self.last)
    }
}

impl Block {
    fn new(path: &Path<'_>, from: i64, inner: i64, stride: i64) -> Self {
        let to = inner * 4;
        let layers = conv(&(path / "a"), from, inner, 1, 1)
            .add_fn(Tensor::relu)
            .add(conv(&(path / "b"), inner, inner, 3, stride))
            .add_fn(Tensor::relu)
            .add(conv(&(path / "c"), inner, to, 1, 1));
        let shortcut =
            (from != to || stride != 1).then(|| conv(&(path / "shortcut"), from, to, 1, stride));
        Self { inner: layers, shortcut }
    }

    fn forward(&self, x: &Tensor, train: bool) -> Tensor {
        let y = self.inner.forward_t(x, train);
        match &self.shortcut {
            None => (y + x).relu(),
            Some(shortcut) => (y + shortcut.forward_t(x, train)).relu(),
        }
    }
}

/// A convolution followed by batch norm.
fn conv(path: &Path<'_>, from: i64, to: i64, size: i64, stride: i64) -> SequentialT {
    let config = ConvConfig { stride, padding: size / 2, bias: false, ..Default::default() };
    nn::seq_t().add(nn::conv2d(path / "conv", from, to, size, config)).add(nn::batch_norm2d(
        path / "norm",
        to,
        Default::default(),
    ))
}

#[cfg(test)]
mod tests {
    use tch::{Device, nn::VarStore};

    use super::*;

    #[test]
    fn it_has_the_size_of_resnet_50_and_learns() {
        let store = VarStore::new(Device::Cpu);
        let net = ResNet50::new(&store.root(), 1000);
        let n: usize = store.trainable_variables().iter().map(Tensor::numel).sum();
        assert_eq!(n, 25_557_032, "torchvision's resnet50 has as many");
        let scores = net.forward(&Tensor::rand([2, 3, 64, 64], (Kind::Float, Device::Cpu)), true);
        assert_eq!(scores.size(), [2, 1000]);
        scores.square().mean(Kind::Float).backward();
        assert!(store.trainable_variables().iter().all(|v| v.grad().defined()));
    }
}
