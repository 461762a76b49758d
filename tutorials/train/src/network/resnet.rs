//! torchvision's ResNets, with the same names of weights, so that weights saved by PyTorch can be
//! loaded.
//!
//! `conv1`, `bn1`, then `layer1` to `layer4` of blocks numbered from 0, then `fc`. As in
//! torchvision a block halves the picture in its convolution of 3 x 3.

use tch::nn::{self, Module as _, ModuleT as _, Path};
use tch::{Kind, Tensor};

/// The depth of a residual network.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Depth {
    D18,
    D50,
}

/// A residual network.
#[derive(Debug)]
pub(crate) struct Resnet {
    conv1: nn::Conv2D,
    bn1: nn::BatchNorm,
    blocks: Vec<Block>,
    fc: nn::Linear,
    dropout: f64,
}

/// A block, whose output is added to its input.
#[derive(Debug)]
struct Block {
    /// The convolutions, each followed by its norm; the last one is followed by the sum.
    layers: Vec<(nn::Conv2D, nn::BatchNorm)>,
    /// The convolution of the input, if it has another shape than the output.
    downsample: Option<(nn::Conv2D, nn::BatchNorm)>,
}

impl Resnet {
    pub(crate) fn new(
        depth: Depth,
        root: &Path<'_>,
        channels: i64,
        n_classes: i64,
        dropout: f64,
    ) -> Self {
        let (n_blocks, expansion) = match depth {
            Depth::D18 => ([2, 2, 2, 2], 1),
            Depth::D50 => ([3, 4, 6, 3], 4),
        };
        let (conv1, bn1) = (conv(root / "conv1", channels, 64, 7, 2), norm(root / "bn1", 64));
        let mut blocks = Vec::new();
        let mut from = 64;
        for (i, n) in n_blocks.into_iter().enumerate() {
            let layer = root / format!("layer{}", i + 1);
            let width = 64 << i;
            for j in 0..n {
                let stride = if i > 0 && j == 0 { 2 } else { 1 };
                let path = &layer / j.to_string();
                blocks.push(Block::new(depth, &path, from, width, width * expansion, stride));
                from = width * expansion;
            }
        }
        let fc = nn::linear(root / "fc", from, n_classes, nn::LinearConfig::default());
        Self { conv1, bn1, blocks, fc, dropout }
    }

    pub(crate) fn forward(&self, images: &Tensor, train: bool) -> Tensor {
        let first = self.conv1.forward(images).apply_t(&self.bn1, train).relu();
        let first = first.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false);
        let last = self.blocks.iter().fold(first, |x, block| block.forward(&x, train));
        last.mean_dim([2_i64, 3].as_slice(), false, Kind::Float)
            .dropout(self.dropout, train)
            .apply(&self.fc)
    }
}

impl Block {
    fn new(depth: Depth, path: &Path<'_>, from: i64, width: i64, to: i64, stride: i64) -> Self {
        // Each entry is (from, to, kernel, stride).
        let layers = match depth {
            Depth::D18 => vec![(from, width, 3, stride), (width, to, 3, 1)],
            Depth::D50 => vec![(from, width, 1, 1), (width, width, 3, stride), (width, to, 1, 1)],
        };
        let layers = layers.into_iter().zip(1..).map(|((from, to, kernel, stride), i)| {
            let (conv_path, norm_path) = (path / format!("conv{i}"), path / format!("bn{i}"));
            (conv(conv_path, from, to, kernel, stride), norm(norm_path, to))
        });
        let layers = layers.collect();
        let downsample = (stride != 1 || from != to).then(|| {
            let path = path / "downsample";
            (conv(&path / "0", from, to, 1, stride), norm(&path / "1", to))
        });
        Self { layers, downsample }
    }

    fn forward(&self, x: &Tensor, train: bool) -> Tensor {
        let mut y = x.shallow_clone();
        for (i, (conv, norm)) in self.layers.iter().enumerate() {
            y = conv.forward(&y);
            y = norm.forward_t(&y, train);
            if i + 1 < self.layers.len() {
                y = y.relu();
            }
        }
        let skipped = match &self.downsample {
            None => x.shallow_clone(),
            Some((conv, norm)) => norm.forward_t(&conv.forward(x), train),
        };
        (y + skipped).relu()
    }
}

fn conv(path: Path<'_>, from: i64, to: i64, kernel: i64, stride: i64) -> nn::Conv2D {
    let config =
        nn::ConvConfig { stride, padding: kernel / 2, bias: false, ..nn::ConvConfig::default() };
    nn::conv2d(path, from, to, kernel, config)
}

fn norm(path: Path<'_>, channels: i64) -> nn::BatchNorm {
    // By default tch draws the scale at random.
    let config =
        nn::BatchNormConfig { ws_init: nn::Init::Const(1.0), ..nn::BatchNormConfig::default() };
    nn::batch_norm2d(path, channels, config)
}
